"""Checks Kubernetes manifests, strictly: unknown keys are errors, too.

usage: validate-manifests.py CRD... < manifests

Checks resources of Kubernetes against its schemas (kubernetes-validate), custom ones against the given files of custom
resource definitions. Prints a line for each fault, and exits with 1 if there is one.
"""

import sys

import jsonschema
import kubernetes_validate
import yaml

# A definition lists `=` among its values, which YAML 1.1 reads as a tag of its own.
yaml.SafeLoader.add_constructor("tag:yaml.org,2002:value", lambda _loader, node: node.value)


def strict(schema):
    """Refuses properties that a schema does not name, unless it allows additional ones."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if "properties" in made and "additionalProperties" not in made:
        if not made.get("x-kubernetes-preserve-unknown-fields"):
            made["additionalProperties"] = False
    if made.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
    return made


def custom_schemas(paths):
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for definition in yaml.safe_load_all(file):
                if not definition or definition.get("kind") != "CustomResourceDefinition":
                    continue
                spec = definition["spec"]
                for version in spec["versions"]:
                    schema = strict(version["schema"]["openAPIV3Schema"])
                    schema["properties"]["metadata"] = {"type": "object"}
                    found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def main():
    custom = custom_schemas(sys.argv[1:])
    faults = 0
    for resource in yaml.safe_load_all(sys.stdin):
        name = f"{resource['kind']} {resource['metadata']['name']}"
        schema = custom.get((resource["apiVersion"], resource["kind"]))
        try:
            if schema:
                jsonschema.Draft202012Validator(schema).validate(resource)
            else:
                kubernetes_validate.validate(resource, "1.33", strict=True)
        except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
            path = ".".join(str(step) for step in error.path)
            print(f"{name}: {path}: {error.message[:300]}")
            faults += 1
        except kubernetes_validate.InvalidSchemaError:
            print(f"{name}: there is no schema of {resource['apiVersion']}")
            faults += 1
    return 1 if faults else 0


sys.exit(main())
