# Makes one request to each target, and prints the status of each answer and the variable. The
# secret is in a header, a query or a body, or it is the key of a signature. A target is
# KIND=HOST=MARKER. Only sandboxes know the names of the hosts, so the host control sets
# PROBE_SERVER.
import base64, hashlib, hmac, http.client, json, os, socket, sys, urllib.parse

port = sys.argv[1]
key = os.environ['PROBE_KEY']
# A key that the host does not have, as of the code's own account.
OWN = 'own-key'
DATE = '20150830T123600Z'
FORM = {'Content-Type': 'application/x-www-form-urlencoded'}


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def scope(service):
    return f'20150830/us-east-1/{service}/aws4_request'


# The value of a signature. `path` and `query` are canonical, `headers` sorted pairs.
def signature(headers, by=None, service='sts', method='GET', path='/', query='', payload=sha256('')):
    lines = ''.join(f'{name}:{value}\n' for name, value in headers)
    names = ';'.join(name for name, _ in headers)
    canonical = '\n'.join([method, path, query, lines, names, payload])
    derived = ('AWS4' + (by or key)).encode()
    text = '\n'.join(['AWS4-HMAC-SHA256', DATE, scope(service), sha256(canonical)])
    for part in scope(service).split('/') + [text]:
        derived = hmac.new(derived, part.encode(), hashlib.sha256).digest()
    return derived.hex()


# Headers with a signature of `host`, the date, and `more`.
def signed(host, more=(), service='sts', **request):
    headers = sorted([('host', host), ('x-amz-date', DATE), *more])
    names = ';'.join(name for name, _ in headers)
    made = signature(headers, service=service, **request)
    fields = f'Credential=probe/{scope(service)}, SignedHeaders={names}, Signature={made}'
    return {'X-Amz-Date': DATE, **dict(more), 'Authorization': f'AWS4-HMAC-SHA256 {fields}'}


# A path whose query has a signature.
def presigned(host, service='sts', path='/', **request):
    fields = {
        'Action': 'GetCallerIdentity',
        'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
        'X-Amz-Credential': f'probe/{scope(service)}',
        'X-Amz-Date': DATE,
        'X-Amz-Expires': '60',
        'X-Amz-SignedHeaders': 'host',
    }
    query = urllib.parse.urlencode(fields)
    made = signature([('host', host)], service=service, path=path, query=query, **request)
    return f'{path}?{query}&X-Amz-Signature={made}'


# The method, path, headers and body of a request.
def request(kind, host):
    get = lambda headers, path='/': ('GET', path, headers, None)
    post = lambda headers, body, path='/': ('POST', path, headers, body)
    if kind == 'header':
        return get({'Authorization': key})
    if kind == 'basic':
        return get({'Authorization': 'Basic ' + base64.b64encode(f'user:{key}'.encode()).decode()})
    if kind == 'query':
        return get({}, '/?' + urllib.parse.urlencode({'a': '1', 'key': key}))
    if kind == 'form':
        return post(FORM, urllib.parse.urlencode({'a': '1', 'key': key}))
    if kind == 'json':
        return post({'Content-Type': 'application/json; charset=utf-8'}, json.dumps({'key': key}))
    if kind == 'signature':
        return get(signed(host))
    if kind == 'presigned':
        return get({}, presigned(host))
    # S3 signs a path as it is sent, others without `.`, `..` and empty parts, encoded once more.
    if kind == 'sent-path':
        path = '/a//b%20c/./d/../~e'
        return get(signed(host, service='s3', path=path, payload='UNSIGNED-PAYLOAD',
                          more=[('x-amz-content-sha256', 'UNSIGNED-PAYLOAD')]), path)
    if kind == 'normalized-path':
        return get(signed(host, path='/a/b%2520c/~e/'), '/a//b%20c/./d/../~e/')
    if kind == 'encoded-path':
        return get(signed(host, path='/a//b%2520c'), '/a//b%20c')
    # A query is sorted and encoded anew.
    if kind == 'signed-query':
        return get(signed(host, query='a=%20&a=1&b=%C3%A4&b-c=%2F&empty='), '/?b=%c3%a4&empty&a=1&b-c=/&a=+')
    # Several spaces in a header count as one.
    if kind == 'signed-header':
        headers = signed(host, more=[('x-probe-data', 'a b')])
        return get({**headers, 'x-probe-data': '  a   b '})
    if kind == 'signed-body':
        return post(signed(host, method='POST', payload=sha256('a=1')), 'a=1')
    # The body changes on its way, so its hash changes, too.
    if kind == 'secret-in-signed-body':
        body = urllib.parse.urlencode({'a': '1', 'key': key})
        hashed = sha256(body)
        return post({**signed(host, method='POST', payload=hashed, more=[('x-amz-content-sha256', hashed)]),
                     **FORM}, body)
    if kind == 'presigned-for-s3':
        return get({}, presigned(host, service='s3', path='/a%20b', payload='UNSIGNED-PAYLOAD'))
    # A signature by another key is passed on as it is, with secrets in what it does not cover.
    if kind == 'own':
        return get(signed(host, by=OWN))
    if kind == 'own-beside-secret':
        return get({**signed(host, by=OWN), 'X-Api-Key': key})
    if kind == 'own-over-secret':
        return get(signed(host, by=OWN, more=[('x-api-key', key)]))
    if kind == 'own-over-body':
        hashed = sha256(key)
        return post({**signed(host, by=OWN, method='POST', payload=hashed,
                              more=[('x-amz-content-sha256', hashed)]), **FORM}, 'key=' + key)
    # Signatures that the host cannot make again.
    if kind == 'chunks':
        payload = 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD'
        return post(signed(host, method='POST', payload=payload, more=[('x-amz-content-sha256', payload)]), '')
    if kind == 'other-algorithm':
        headers = signed(host)
        changed = headers['Authorization'].replace('AWS4-HMAC-SHA256', 'AWS4-ECDSA-P256-SHA256')
        return get({**headers, 'Authorization': changed, 'X-Api-Key': key})
    if kind == 'no-date':
        return get({'Authorization': signed(host)['Authorization'], 'X-Api-Key': key})
    if kind == 'two':
        return get({**signed(host), 'X-Api-Key': key}, presigned(host))
    sys.exit(f'no request {kind}')


for target in sys.argv[2:]:
    kind, name, marker = target.split('=')
    method, path, headers, body = request(kind, f'{name}:{port}')
    connection = http.client.HTTPSConnection(name, int(port), timeout=20)
    if 'PROBE_SERVER' in os.environ:
        to = os.environ['PROBE_SERVER'], int(port)
        connection._create_connection = lambda *_: socket.create_connection(to)
    connection.request(method, path, body, headers={**headers, 'X-Probe': marker})
    print(connection.getresponse().status)
print(key)
