"""The page of a replica, and the forms to move the leader, and to add, elect and remove replicas."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode
from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.base.page_response import redirect_to, render_page
from ternmq_console.pages.cluster import broker_facts
from ternmq_console.pages.cluster.brokers import broker_path, find_broker, show_broker

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext


async def show_replica(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show one replica."""
    name, replica_name = request.path_params["name"], request.path_params["replica"]
    its_broker = await find_broker(name, asking)
    found = next((each for each in its_broker.replicas if each.name == replica_name), None)
    if found is None:
        raise CallRefused(ErrorCode.NOT_FOUND, f"broker {name!r} has no replica {replica_name!r}")
    return await render_page(
        request, asking, "cluster/replica.html",
        title=f"{replica_name} of {name}", broker=its_broker, replica=found, telling=broker_facts,
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def move_leader(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Request a handover to a replica."""
    name, replica_name = request.path_params["name"], form.text("replica")
    await asking.call_server("MoveLeader", broker=name, replica=replica_name)
    asking.session.notice = f"Replica {replica_name} was requested to lead broker {name}."
    return redirect_to(broker_path(name))


async def add_replica(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Allow the broker one more replica."""
    del form
    name = request.path_params["name"]
    added = await asking.call_server("AddReplica", broker=name)
    wanted = added.broker.replicas_wanted
    asking.session.notice = f"Broker {name} may have {wanted} replicas: start the process of another one now."
    return redirect_to(broker_path(name))


async def elect_replica(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Elect a replica that is not in sync; messages that it does not have are lost."""
    name, replica_name = request.path_params["name"], request.path_params["replica"]
    form.check_confirmation(replica_name)
    elected = await asking.call_server("ElectReplica", broker=name, replica=replica_name)
    lost = f" At least {elected.lost_bytes:,} bytes of the log are lost." if elected.lost_bytes else ""
    asking.session.notice = f"Replica {replica_name} was elected to lead broker {name}.{lost}"
    return redirect_to(broker_path(name))


async def remove_replica(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Remove a replica."""
    name, replica_name = request.path_params["name"], request.path_params["replica"]
    form.check_confirmation(replica_name)
    await asking.call_server("RemoveReplica", broker=name, replica=replica_name)
    asking.session.notice = f"Replica {replica_name} of broker {name} was removed."
    return redirect_to(broker_path(name))


FEATURE = PageFeature(
    homes=(),
    shown={"/brokers/{name}/replicas/{replica}": show_replica},
    done={
        "/brokers/{name}/leader": (move_leader, show_broker),
        "/brokers/{name}/replicas": (add_replica, show_broker),
        "/brokers/{name}/replicas/{replica}/elect": (elect_replica, show_replica),
        "/brokers/{name}/replicas/{replica}/remove": (remove_replica, show_replica),
    },
)
