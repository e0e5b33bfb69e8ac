//! Documents as a schema describes them, with mistakes.

use serde_json::{Map, Value, json};

/// Values that are wrong in most places.
fn oddities() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1.0),
        json!(1.5),
        json!(70_000),
        json!(1e12),
        json!(u64::MAX),
        json!(""),
        json!("gw-1"),
        json!("no form has this!"),
        json!("10.0.0.1"),
        json!("fd00::1"),
        json!("tcp"),
        json!("x".repeat(200)),
        json!([]),
        json!([1, "a", null]),
        json!({}),
        json!({"unknown": 1, "port": 2}),
    ]
}

/// Texts of which each form has some.
const TEXTS: [&str; 8] = [
    "gw1",
    "eth0",
    "02:00:00:00:00:01",
    "00112233445566778899aabbccddeeff",
    "ab",
    "jz",
    "10.9.0.1",
    "fd00:9::1",
];

/// Draws documents; the same seed draws the same.
pub(super) struct Documents<'a> {
    root: &'a Value,
    state: u64,
    /// Of a hundred values, how many are mistakes.
    mistakes: u64,
}

impl<'a> Documents<'a> {
    pub(super) fn new(root: &'a Value, seed: u64, mistakes: u64) -> Self {
        Self { root, state: seed | 1, mistakes }
    }

    pub(super) fn document(&mut self) -> Value {
        self.value(self.root, 0)
    }

    /// A number below `end` (xorshift).
    fn below(&mut self, end: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 16) % end.max(1)
    }

    fn one_of<'v>(&mut self, values: &'v [Value]) -> &'v Value {
        &values[usize::try_from(self.below(values.len() as u64)).unwrap()]
    }

    fn value(&mut self, schema: &Value, depth: u32) -> Value {
        if depth > 12 || self.below(100) < self.mistakes {
            return self.one_of(&oddities()).clone();
        }
        if let Some(target) = schema["$ref"].as_str() {
            return self.value(self.root.pointer(&target[1..]).unwrap(), depth + 1);
        }
        for alternatives in [&schema["anyOf"], &schema["oneOf"]] {
            if let Some(all) = alternatives.as_array().filter(|all| all[0]["format"].is_null()) {
                let schema = self.one_of(all);
                return self.value(schema, depth + 1);
            }
        }
        match (&schema["const"], &schema["enum"]) {
            (Value::Null, Value::Array(options)) => self.one_of(options).clone(),
            (Value::Null, _) => self.typed(schema, depth),
            (constant, _) => constant.clone(),
        }
    }

    fn typed(&mut self, schema: &Value, depth: u32) -> Value {
        let kind = match &schema["type"] {
            Value::Array(kinds) => self.one_of(kinds).as_str().unwrap(),
            kind => kind.as_str().unwrap_or_default(),
        };
        match kind {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, depth),
            "string" => TEXTS[usize::try_from(self.below(8)).unwrap()].into(),
            "boolean" => (self.below(2) == 0).into(),
            "integer" => self.integer(schema),
            "number" => json!(self.below(3_000_000) as f64 / 1000.0),
            _ => Value::Null,
        }
    }

    fn integer(&mut self, schema: &Value) -> Value {
        let low = schema["minimum"].as_u64().unwrap_or(0);
        let high = schema["maximum"].as_u64().unwrap_or(low + 1000);
        match self.below(8) {
            0 => low.into(),
            1 => high.into(),
            _ => (low + self.below(high - low + 1)).into(),
        }
    }

    fn array(&mut self, schema: &Value, depth: u32) -> Value {
        if let Some(items) = schema["prefixItems"].as_array() {
            return items.iter().map(|item| self.value(item, depth + 1)).collect();
        }
        let low = schema["minItems"].as_u64().unwrap_or(0);
        let length = low + self.below(3);
        (0..length).map(|_| self.value(&schema["items"], depth + 1)).collect()
    }

    fn object(&mut self, schema: &Value, depth: u32) -> Value {
        let mut fields = Map::new();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            if self.below(100) < 85 {
                fields.insert(name.clone(), self.value(schema, depth + 1));
            }
        }
        if let further @ Value::Object(_) = &schema["additionalProperties"] {
            fields.insert("another".into(), self.value(further, depth + 1));
        }
        if self.below(100) < self.mistakes {
            fields.insert("unknown".into(), json!(1));
        }
        Value::Object(fields)
    }
}
