"""The table of rules, and the one that the tests of access control walk (`tests/system/test_access.py`)."""

from ternmq_proxy.access.rules import ADMIN_RULES, MESSAGING_RULES, PUBLISHED_ADMIN_RULES
from tests.support import access_table
from tests.support.embedded import ADMIN, MESSAGING, PUBLISHED


def test_every_call_has_a_rule_and_is_walked_by_a_test() -> None:
    messaging, admin, published = (
        {method.name for method in service.methods} for service in (MESSAGING, ADMIN, PUBLISHED)
    )
    assert access_table.MESSAGING.keys() == MESSAGING_RULES.keys() == messaging
    assert access_table.ADMIN.keys() == ADMIN_RULES.keys() == admin
    assert access_table.PUBLISHED.keys() == PUBLISHED_ADMIN_RULES.keys() == published
