//! The part of JSON Schema that the published schema uses.

use serde_json::Value;

/// The parts of a value that the schema does not allow, with their paths.
pub fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, value, "$", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for keyword in schema
        .as_object()
        .into_iter()
        .flat_map(|object| object.keys())
    {
        // An unknown keyword would allow everything.
        let known = [
            "$schema",
            "$defs",
            "$ref",
            "title",
            "description",
            "type",
            "const",
            "enum",
            "required",
            "properties",
            "additionalProperties",
            "items",
        ];
        assert!(known.contains(&keyword.as_str()), "{keyword} at {at}");
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix("#/$defs/").expect("a definition");
        let target = &root["$defs"][name];
        assert!(target.is_object(), "{reference} is defined nowhere");
        check(root, target, value, at, found);
    }
    let types = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.contains(&kind(value)) {
        found.push(format!("{at}: {} instead of {types:?}", kind(value)));
        return;
    }
    if !schema["const"].is_null() && schema["const"] != *value {
        found.push(format!("{at}: {value} instead of {}", schema["const"]));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        found.push(format!("{at}: {value} is none of {allowed:?}"));
    }
    if let Some(object) = value.as_object() {
        for required in schema["required"].as_array().into_iter().flatten() {
            if !object.contains_key(required.as_str().unwrap_or_default()) {
                found.push(format!("{at}: {required} is missing"));
            }
        }
        for (name, value) in object {
            let at = format!("{at}.{name}");
            match &schema["properties"][name] {
                Value::Null if schema["additionalProperties"] == false => {
                    found.push(format!("{at} is not in the schema"));
                }
                Value::Null => {}
                property => check(root, property, value, &at, found),
            }
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        if !schema["items"].is_null() {
            check(
                root,
                &schema["items"],
                item,
                &format!("{at}[{index}]"),
                found,
            );
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() || number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
