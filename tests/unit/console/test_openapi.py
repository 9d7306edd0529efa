"""The OpenAPI file: it is one, and has every route and every call of the Admin service."""

from openapi_spec_validator import validate

from ternmq_console.api.routes import PREFIX, ROUTES
from ternmq_console.calls import ADMIN
from tests.support.json_api import specification


def test_the_file_is_of_its_specification() -> None:
    validate(specification())


def test_every_route_is_in_the_file_and_every_call_has_one() -> None:
    said = {
        (method.upper(), path): operation["operationId"]
        for path, methods in specification()["paths"].items()
        for method, operation in methods.items()
    }
    assert said == {(route.method, f"{PREFIX}{route.path}"): route.operation or route.call for route in ROUTES}
    assert {method.name for method in ADMIN.methods} <= set(said.values())


def test_every_message_says_what_it_is_about() -> None:
    """A field that nobody can explain is no help."""
    described = {name for name, schema in specification()["components"]["schemas"].items() if "description" in schema}
    assert {"Topic", "Group", "Broker", "Quota", "Policy", "Transaction", "ResetOffsetsRequest"} <= described
