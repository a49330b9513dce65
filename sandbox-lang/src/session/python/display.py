"""The driver of Python sessions, part 2: what values look like."""
import base64
import traceback

REPRESENTATIONS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("application/pdf", "_repr_pdf_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
)


def representation(value, method, **arguments):
    """What a method of the value's type returns; None if there is none or it fails."""
    # On the type: some instances claim to have every attribute.
    function = getattr(type(value), method, None)
    if function is None or isinstance(value, type):
        return None
    try:
        found = function(value, **arguments)
    except NotImplementedError:
        return None
    except Exception:
        traceback.print_exc()
        return None
    # Metadata may come with the data.
    return found[0] if isinstance(found, tuple) and len(found) == 2 else found


def bundle(value):
    """All representations of a value, by MIME type."""
    data = {}
    for mime, method in REPRESENTATIONS:
        found = representation(value, method)
        if found is not None:
            data[mime] = found
    own = representation(value, "_repr_mimebundle_", include=None, exclude=None)
    if isinstance(own, dict):
        data.update(own)
    if "text/plain" not in data:
        data["text/plain"] = repr(value)
    return data


def encoded(data, limit):
    """The data for a message, and the sizes of what does not fit in the limit."""
    contents, omitted, room = {}, {}, limit
    for mime, content in data.items():
        mime = str(mime)
        if isinstance(content, (bytes, bytearray)):
            size, key = len(content), "base64"
        elif isinstance(content, str):
            size, key = len(content.encode("utf-8", "surrogatepass")), "text"
        else:
            try:
                content = json.dumps(content, allow_nan=False)
                size, key = len(content), "json"
            except (TypeError, ValueError, RecursionError):
                traceback.print_exc()
                continue
        if size > room:
            omitted[mime] = size
            if mime != "text/plain" or key != "text":
                continue
            # The limit is in bytes, and a character has at most four.
            content = content[: room // 4]
            size = room
        room -= size
        if key == "base64":
            content = base64.b64encode(content).decode()
        contents[mime] = {key: content}
    return contents, omitted, limit - room
