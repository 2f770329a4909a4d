//! The OpenAPI document: schemas from the types themselves, paths from the table of routes.

use model::limits::NAME_LENGTH_MAX;
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    BlockDeviceShown, ClusterShown, DrillReport, DrillStart, EventShown, HostShown, NodeShown,
    Page, PoolPut, PoolShown, Preview, Problem, Promote, PublicationPut, RecordShown, Recover,
    ReplicaShown, SharePut, ShareShown, SnapshotPut, SnapshotShown, SwitchoverShown, TargetShown,
    VolumePut, VolumeShown, Why,
    problem::CODES,
    routes::{Operation, ROUTES, Route},
    wait, why,
};

/// What may be the name of something new.
const NAME: &str = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$";

/// A number of an event.
const NUMBER: &str = "^[0-9]{1,18}$";

/// The whole document.
pub fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Replicated block volumes on ordinary machines. `layout` is what was \
                decided: it can be read, and its shape may change.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths(),
        "components": { "responses": problems(), "schemas": schemas() },
    })
}

fn paths() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Value::Object(methods) = path {
            methods.insert(route.verb.word().into(), operation(route));
        }
    }
    Value::Object(paths)
}

fn operation(route: &Route) -> Value {
    let mut operation = json!({
        "operationId": route.operation.id(),
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": responses(route),
    });
    if let (Some(body), Value::Object(fields)) = (route.body, &mut operation) {
        let content = json!({ "application/json": { "schema": reference(body) } });
        let required = !matches!(route.operation, Operation::Recover | Operation::Drill);
        fields.insert("requestBody".into(), json!({ "required": required, "content": content }));
    }
    operation
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn parameters(route: &Route) -> Value {
    let mut parameters = Vec::new();
    for part in route.path.split('/') {
        if let Some(name) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            let schema = match name {
                "kind" => json!({ "type": "string", "enum": why::KINDS }),
                "name" if route.operation.is_making() => {
                    json!({ "type": "string", "pattern": NAME, "maxLength": NAME_LENGTH_MAX })
                }
                _ => json!({ "type": "string", "minLength": 1 }),
            };
            parameters
                .push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
        }
    }
    for name in route.query {
        let (schema, words) = match (*name, route.operation) {
            ("after", Operation::Events) => {
                (json!({ "type": "string", "pattern": NUMBER }), "The number of the event before.")
            }
            (name, _) => parameter(name),
        };
        parameters.push(json!({
            "name": name, "in": "query", "description": words, "schema": schema
        }));
    }
    if route.operation.is_change() {
        parameters.push(json!({
            "name": "If-Match", "in": "header",
            "schema": { "type": "string", "pattern": "^\"?[0-9]{1,18}\"?$" },
            "description": "The spec's revision that was read; a stale one is refused.",
        }));
    }
    if route.operation.is_making() {
        parameters.push(json!({
            "name": "If-None-Match", "in": "header",
            "schema": { "type": "string", "enum": ["*"] },
            "description": "Create only: what exists is never changed. If it is as asked for, the \
                            answer is 200 and not 201; if not, 409 with each field that differs.",
        }));
    }
    if route.operation == Operation::Events {
        parameters.push(json!({
            "name": "Last-Event-ID", "in": "header",
            "schema": { "type": "string", "pattern": NUMBER },
            "description": "The stream goes on after this event.",
        }));
    }
    Value::Array(parameters)
}

fn parameter(name: &str) -> (Value, &'static str) {
    match name {
        "limit" => {
            let most = crate::limits::PAGE_MAX;
            (json!({ "type": "integer", "minimum": 1, "maximum": most }), "Items at most.")
        }
        "after" => (json!({ "type": "string" }), "The `next` of the page before."),
        "labels" => (
            json!({ "type": "string", "pattern": "^[^=,]+=[^,]*(,[^=,]+=[^,]*)*$" }),
            "Only those with these labels: key=value,key=value.",
        ),
        "at" => (json!({ "type": "integer", "minimum": 1 }), "The revision of the first page."),
        "wait" => (json!({ "type": "string", "enum": wait::WORDS }), "Answers when it is so."),
        "timeout" => (
            json!({ "type": "string", "pattern": "^[0-9]{1,3}(ms|s)$" }),
            "How long to wait; 202 if it is not so by then.",
        ),
        "if-plan" => (
            json!({ "type": "string", "pattern": "^[0-9a-f]{16}$" }),
            "The `plan` of a preview; refused if another.",
        ),
        "dry-run" => (json!({ "type": "boolean" }), "Only tell what would be done."),
        "force" => (
            json!({ "type": "boolean" }),
            "Although a host has it: nobody waits for the host's word, it is fenced.",
        ),
        _ => (json!({ "type": "boolean" }), "Delete its snapshots too."),
    }
}

fn responses(route: &Route) -> Value {
    let ok = match (route.answer, route.operation) {
        ("", _) => json!({ "text/plain": { "schema": { "type": "string" } } }),
        ("Object", _) => json!({ "application/json": { "schema": { "type": "object" } } }),
        (answer, operation) if operation.is_change() => {
            let either = json!({ "anyOf": [reference(answer), reference("Preview")] });
            json!({ "application/json": { "schema": either } })
        }
        (answer, Operation::Events) => json!({
            "application/json": { "schema": reference(answer) },
            "text/event-stream": { "schema": { "type": "string" } },
        }),
        (answer, _) => json!({ "application/json": { "schema": reference(answer) } }),
    };
    let mut responses = Map::new();
    responses.insert("200".into(), json!({ "description": "Done.", "content": ok }));
    if route.operation.is_change() {
        responses.insert("201".into(), json!({ "description": "Made.", "content": ok }));
    }
    if route.operation.is_change() || route.query.contains(&"wait") {
        responses.insert("204".into(), json!({ "description": "Gone." }));
    }
    if route.query.contains(&"wait") {
        let words = "Accepted; what was waited for is not so yet.";
        responses.insert("202".into(), json!({ "description": words, "content": ok }));
    }
    for status in statuses() {
        let reference = json!({ "$ref": format!("#/components/responses/{status}") });
        responses.insert(status.to_string(), reference);
    }
    Value::Object(responses)
}

/// Every status that a problem can have.
fn statuses() -> Vec<u16> {
    let mut statuses: Vec<u16> = CODES.iter().map(|(_, status, _)| *status).collect();
    statuses.dedup();
    statuses
}

/// Problems are the same everywhere.
fn problems() -> Value {
    let content = json!({ "application/problem+json": { "schema": reference("Problem") } });
    let response = |status: u16| {
        let of_status = CODES.iter().filter(|(_, of, _)| *of == status);
        let codes: Vec<&str> = of_status.map(|(code, ..)| *code).collect();
        let words = format!("A problem: {}.", codes.join(", "));
        (status.to_string(), json!({ "description": words, "content": content }))
    };
    Value::Object(statuses().into_iter().map(response).collect())
}

fn schemas() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let mut pages = Map::new();
    register(&mut generator, &mut pages);
    let mut all: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    all.extend(pages);
    all.insert(
        "Labels".into(),
        json!({ "type": "object", "additionalProperties": { "type": "string" } }),
    );
    Value::Object(all)
}

/// A page of a kind has a name of its own, so that clients can be made from the document.
fn register(generator: &mut SchemaGenerator, pages: &mut Map<String, Value>) {
    macro_rules! page {
        ($($item:ident)*) => {$(
            generator.subschema_for::<$item>();
            let name = concat!("PageOf", stringify!($item));
            let schema = <Page<$item> as schemars::JsonSchema>::json_schema(generator);
            pages.insert(name.into(), schema.to_value());
        )*};
    }
    page!(NodeShown PoolShown VolumeShown TargetShown ReplicaShown SnapshotShown HostShown);
    page!(ShareShown SwitchoverShown EventShown RecordShown BlockDeviceShown);
    generator.subschema_for::<VolumePut>();
    generator.subschema_for::<PoolPut>();
    generator.subschema_for::<SnapshotPut>();
    generator.subschema_for::<PublicationPut>();
    generator.subschema_for::<SharePut>();
    generator.subschema_for::<Promote>();
    generator.subschema_for::<DrillStart>();
    generator.subschema_for::<DrillReport>();
    generator.subschema_for::<Recover>();
    generator.subschema_for::<ClusterShown>();
    generator.subschema_for::<Preview>();
    generator.subschema_for::<Problem>();
    generator.subschema_for::<Why>();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::read::Kind;

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(to)) = fields.get("$ref") {
                    found.insert(to.clone());
                }
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_schema_that_is_referred_to_is_there() {
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 40, "{}", found.len());
        for reference in found {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn every_operation_has_a_name_of_its_own_and_words() {
        let ids: BTreeSet<String> = ROUTES.iter().map(|route| route.operation.id()).collect();
        assert_eq!(ids.len(), ROUTES.len());
        for route in ROUTES {
            assert!(!route.summary.is_empty(), "{}", route.path);
        }
        assert!(ids.contains(&Operation::One(Kind::Volumes).id()));
    }
}
