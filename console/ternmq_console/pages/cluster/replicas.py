"""The page of a replica, and the forms to move the leader, and to add, elect and remove replicas."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode
from ternmq_console.pages.base.answering import moved_to, page
from ternmq_console.pages.base.asking import Refused
from ternmq_console.pages.base.feature import Feature
from ternmq_console.pages.cluster import telling
from ternmq_console.pages.cluster.brokers import broker, broker_named, path_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form


async def replica(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show one replica."""
    name, replica_name = request.path_params["name"], request.path_params["replica"]
    its_broker = await broker_named(name, asking)
    found = next((each for each in its_broker.replicas if each.name == replica_name), None)
    if found is None:
        raise Refused(ErrorCode.NOT_FOUND, f"broker {name!r} has no replica {replica_name!r}")
    return await page(
        request, asking, "cluster/replica.html",
        title=f"{replica_name} of {name}", broker=its_broker, replica=found, telling=telling,
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def move_leader(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Request a handover to a replica."""
    name, replica_name = request.path_params["name"], form.text("replica")
    await asking.ask("MoveLeader", broker=name, replica=replica_name)
    asking.session.notice = f"Replica {replica_name} was requested to lead broker {name}."
    return moved_to(path_of(name))


async def add(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Allow the broker one more replica."""
    del form
    name = request.path_params["name"]
    added = await asking.ask("AddReplica", broker=name)
    wanted = added.broker.replicas_wanted
    asking.session.notice = f"Broker {name} may have {wanted} replicas: start the process of another one now."
    return moved_to(path_of(name))


async def elect(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Elect a replica that is not in sync; messages that it does not have are lost."""
    name, replica_name = request.path_params["name"], request.path_params["replica"]
    form.confirm(replica_name)
    elected = await asking.ask("ElectReplica", broker=name, replica=replica_name)
    lost = f" At least {elected.lost_bytes:,} bytes of the log are lost." if elected.lost_bytes else ""
    asking.session.notice = f"Replica {replica_name} was elected to lead broker {name}.{lost}"
    return moved_to(path_of(name))


async def remove(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Remove a replica."""
    name, replica_name = request.path_params["name"], request.path_params["replica"]
    form.confirm(replica_name)
    await asking.ask("RemoveReplica", broker=name, replica=replica_name)
    asking.session.notice = f"Replica {replica_name} of broker {name} was removed."
    return moved_to(path_of(name))


FEATURE = Feature(
    homes=(),
    shown={"/brokers/{name}/replicas/{replica}": replica},
    done={
        "/brokers/{name}/leader": (move_leader, broker),
        "/brokers/{name}/replicas": (add, broker),
        "/brokers/{name}/replicas/{replica}/elect": (elect, replica),
        "/brokers/{name}/replicas/{replica}/remove": (remove, replica),
    },
)
