"""The requests of operators' tools that are served, by their codes."""

from ternmq_proxy.fronts.remoting.codes import RequestCode
from ternmq_proxy.fronts.remoting.handlers.admin import name_server
from ternmq_proxy.fronts.remoting.handlers.handler import Handler

ADMIN_HANDLERS: dict[int, Handler] = {
    RequestCode.PUT_KV_CONFIG: Handler("PutKvConfig", name_server.put_value),
    RequestCode.GET_KV_CONFIG: Handler("GetKvConfig", name_server.get_value),
    RequestCode.DELETE_KV_CONFIG: Handler("DeleteKvConfig", name_server.delete_value),
    RequestCode.REGISTER_BROKER: Handler("RegisterBroker", name_server.refuse_registration),
    RequestCode.UNREGISTER_BROKER: Handler("RegisterBroker", name_server.refuse_registration),
    RequestCode.GET_BROKER_CLUSTER_INFO: Handler("ListBrokers", name_server.describe_cluster),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: Handler("UpdateBroker", name_server.wipe_write_permission),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Handler("ListTopics", name_server.list_topics),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Handler("DeleteTopic", name_server.delete_topic),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: Handler("CreateTopic", name_server.refuse_route),
    RequestCode.GET_KVLIST_BY_NAMESPACE: Handler("GetKvConfig", name_server.list_values),
    RequestCode.GET_TOPICS_BY_CLUSTER: Handler("ListTopics", name_server.list_cluster_topics),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: Handler("ListTopics", name_server.list_system_topics),
    RequestCode.GET_UNIT_TOPIC_LIST: Handler("ListTopics", name_server.list_unit_topics),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: Handler("ListTopics", name_server.list_unit_topics),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Handler("ListTopics", name_server.list_unit_topics),
    RequestCode.UPDATE_NAMESRV_CONFIG: Handler("UpdateServer", name_server.refuse_settings),
    RequestCode.GET_NAMESRV_CONFIG: Handler("GetServerInfo", name_server.describe_settings),
    RequestCode.QUERY_DATA_VERSION: Handler("RegisterBroker", name_server.refuse_registration),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: Handler("UpdateBroker", name_server.add_write_permission),
    RequestCode.GET_BROKER_MEMBER_GROUP: Handler("ListBrokers", name_server.describe_member_group),
    RequestCode.BROKER_HEARTBEAT: Handler("RegisterBroker", name_server.refuse_registration),
}
