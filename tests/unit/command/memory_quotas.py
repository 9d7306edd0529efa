"""The admin service's calls about quotas, in memory."""

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb

OK = pb.Status(code=pb.OK, message="OK")


class MemoryQuotas:
    """`there` is what it was told to have, by `kind:name`; `uses` is what it tells of them, of `proxies` together."""

    def __init__(self) -> None:
        self.there: dict[str, admin_pb2.Quota] = {}
        self.uses: list[admin_pb2.QuotaUse] = []
        self.proxies = 1
        self.refusal: pb.Status | None = None

    def PutQuota(self, request: admin_pb2.PutQuotaRequest) -> admin_pb2.PutQuotaResponse:  # noqa: N802
        title = f"{request.quota.kind}:{request.quota.name}"
        created = title not in self.there
        self.there[title] = request.quota
        if not request.quota.HasField("burst"):
            request.quota.burst.FromSeconds(1)
        return admin_pb2.PutQuotaResponse(status=OK, created=created)

    def DeleteQuota(self, request: admin_pb2.DeleteQuotaRequest) -> admin_pb2.DeleteQuotaResponse:  # noqa: N802
        gone = self.there.pop(f"{request.kind}:{request.name}", None)
        missing = pb.Status(code=pb.NOT_FOUND, message=f"there is no quota {request.kind}:{request.name}")
        return admin_pb2.DeleteQuotaResponse(status=OK if gone else missing)

    def ListQuotas(self, _: admin_pb2.ListQuotasRequest) -> admin_pb2.ListQuotasResponse:  # noqa: N802
        if self.refusal:
            return admin_pb2.ListQuotasResponse(status=self.refusal)
        quotas = [self.there[title] for title in sorted(self.there)]
        return admin_pb2.ListQuotasResponse(
            status=OK, quotas=quotas, uses=self.uses, names=len(self.uses), proxies=self.proxies
        )
