"""The table of rights that the tests of access control walk (`tests/system/test_access.py`)."""

from tests.support import access_table
from tests.support.embedded import ADMIN, MESSAGING, PUBLISHED


def test_the_rights_of_every_call_are_walked_by_a_test() -> None:
    messaging, admin, published = (
        {method.name for method in service.methods} for service in (MESSAGING, ADMIN, PUBLISHED)
    )
    assert access_table.MESSAGING.keys() == messaging
    assert access_table.ADMIN.keys() == admin
    assert access_table.PUBLISHED.keys() == published
