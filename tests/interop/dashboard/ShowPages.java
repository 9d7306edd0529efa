import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.admin.ConsumeStats;
import org.apache.rocketmq.remoting.protocol.admin.TopicStatsTable;
import org.apache.rocketmq.remoting.protocol.body.BrokerStatsData;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.body.Connection;
import org.apache.rocketmq.remoting.protocol.body.ConsumerConnection;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.remoting.protocol.body.UserInfo;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Makes the calls of the pages of rocketmq-dashboard by the client that it stands on, and prints what each page shows:
 * a line for each, in the form that browsers use for forms. Arguments: address, topic, consumer group, producer group,
 * and the id of a message.
 */
public class ShowPages {
    private static final String CLUSTER = "DefaultCluster";
    private static final long TIMEOUT_MS = 10_000;
    private static DefaultMQAdminExt admin;
    private static String broker;

    public static void main(String[] args) throws Exception {
        admin = new DefaultMQAdminExt(TIMEOUT_MS);
        admin.setNamesrvAddr(args[0]);
        admin.setInstanceName("dashboard");
        admin.start();
        String topic = args[1];
        String group = args[2];
        showCluster();
        showTopics(topic, group);
        showConsumers(topic, group);
        showProducers(topic, args[3]);
        showMessages(topic, group, args[0], args[4]);
        showDeadLetters(group, args[0]);
        changeTopic(args[0]);
        changeGroup();
        changeUsers();
        showStart(topic, group);
        Runtime.getRuntime().halt(0);
    }

    private static void print(String page, Object... pairs) throws Exception {
        StringBuilder line = new StringBuilder("event=").append(page);
        for (int at = 0; at < pairs.length; at += 2) {
            line.append('&').append(pairs[at]).append('=')
                    .append(URLEncoder.encode(String.valueOf(pairs[at + 1]), StandardCharsets.UTF_8));
        }
        System.out.println(line);
    }

    private static void showCluster() throws Exception {
        ClusterInfo info = admin.examineBrokerClusterInfo();
        for (Map.Entry<String, java.util.Set<String>> each : info.getClusterAddrTable().entrySet()) {
            for (String name : each.getValue()) {
                broker = info.getBrokerAddrTable().get(name).getBrokerAddrs().get(MixAll.MASTER_ID);
                Map<String, String> stats = admin.fetchBrokerRuntimeStats(broker).getTable();
                Properties settings = admin.getBrokerConfig(broker);
                print("cluster", "cluster", each.getKey(), "broker", name, "address", broker,
                        "version", stats.get("brokerVersionDesc"), "put", stats.get("putTps"),
                        "got", stats.get("getTransferredTps"), "morning", stats.get("msgPutTotalTodayMorning"),
                        "now", stats.get("msgPutTotalTodayNow"), "name", settings.getProperty("brokerName"));
            }
        }
    }

    private static void showTopics(String topic, String group) throws Exception {
        TopicRouteData route = admin.examineTopicRouteInfo(topic);
        TopicStatsTable stats = admin.examineTopicStats(topic);
        TopicConfig config = admin.examineTopicConfig(broker, topic);
        long count = stats.getOffsetTable().values().stream().mapToLong(each -> each.getMaxOffset() - each.getMinOffset()).sum();
        print("topics", "listed", admin.fetchAllTopicList().getTopicList().contains(topic),
                "brokers", route.getBrokerDatas().size(), "queues", route.getQueueDatas().get(0).getReadQueueNums(),
                "stats", stats.getOffsetTable().size(), "messages", count,
                "groups", admin.queryTopicConsumeByWho(topic).getGroupList(),
                "config", config.getReadQueueNums() + "/" + config.getWriteQueueNums() + "/" + config.getPerm(),
                "all", admin.getAllTopicConfig(broker, TIMEOUT_MS).getTopicConfigTable().containsKey(topic));
    }

    private static void showConsumers(String topic, String group) throws Exception {
        Map<String, SubscriptionGroupConfig> groups =
                admin.getAllSubscriptionGroup(broker, TIMEOUT_MS).getSubscriptionGroupTable();
        ConsumeStats all = admin.examineConsumeStats(group);
        ConsumeStats stats = admin.examineConsumeStats(group, topic);
        ConsumerConnection members = admin.examineConsumerConnectionInfo(group);
        Connection member = members.getConnectionSet().iterator().next();
        ConsumerRunningInfo running = admin.getConsumerRunningInfo(group, member.getClientId(), false);
        long read = stats.getOffsetTable().values().stream().mapToLong(each -> each.getConsumerOffset()).sum();
        print("consumers", "listed", groups.containsKey(group), "tries", groups.get(group).getRetryMaxTimes(),
                "lag", all.computeTotalDiff(), "queues", stats.getOffsetTable().size(), "read", read,
                "members", members.getConnectionSet().size(), "version", member.getVersion(), "language", member.getLanguage(),
                "type", members.getConsumeType(), "model", members.getMessageModel(), "from", members.getConsumeFromWhere(),
                "subscriptions", new TreeSet<>(members.getSubscriptionTable().keySet()),
                "running", running.getMqTable().size(), "subscribed", running.getSubscriptionSet().size(),
                "topics", new TreeSet<>(admin.queryTopicsByConsumer(group).getTopicList()));
    }

    private static void showProducers(String topic, String group) throws Exception {
        Connection producer = admin.examineProducerConnectionInfo(group, topic).getConnectionSet().iterator().next();
        print("producers", "version", producer.getVersion(), "language", producer.getLanguage(), "client", producer.getClientId());
    }

    private static DefaultMQPullConsumer reader(String address) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(MixAll.TOOLS_CONSUMER_GROUP);
        consumer.setNamesrvAddr(address);
        consumer.setInstanceName("dashboard-reader");
        consumer.start();
        return consumer;
    }

    /** The messages of a topic between two times, as the page finds them. */
    private static List<MessageExt> read(String topic, String address, long begin, long end) throws Exception {
        DefaultMQPullConsumer consumer = reader(address);
        List<MessageExt> found = new java.util.ArrayList<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            long last = consumer.searchOffset(queue, end);
            for (long offset = consumer.searchOffset(queue, begin); offset <= last;) {
                PullResult pulled = consumer.pull(queue, "*", offset, 32);
                if (pulled.getPullStatus() != PullStatus.FOUND) {
                    break;
                }
                pulled.getMsgFoundList().stream()
                        .filter(each -> each.getStoreTimestamp() >= begin && each.getStoreTimestamp() <= end)
                        .forEach(found::add);
                offset = pulled.getNextBeginOffset();
            }
        }
        consumer.shutdown();
        return found;
    }

    private static String bodies(List<MessageExt> messages) {
        return messages.stream().map(each -> new String(each.getBody(), StandardCharsets.UTF_8)).sorted()
                .collect(Collectors.joining(","));
    }

    private static void showMessages(String topic, String group, String address, String id) throws Exception {
        long now = System.currentTimeMillis();
        List<MessageExt> keyed = admin.queryMessage(topic, "key-3", 64, 0, Long.MAX_VALUE).getMessageList();
        MessageExt message = admin.viewMessage(topic, id);
        String member = admin.examineConsumerConnectionInfo(group).getConnectionSet().iterator().next().getClientId();
        print("messages", "by_time", bodies(read(topic, address, now - 3_600_000, now)), "before",
                bodies(read(topic, address, now - 7_200_000, now - 3_600_000)), "by_key", bodies(keyed),
                "by_id", new String(message.getBody(), StandardCharsets.UTF_8), "tags", message.getTags(),
                "keys", message.getKeys(),
                "track", admin.messageTrackDetail(message).stream()
                        .filter(each -> each.getConsumerGroup().equals(group)).map(each -> each.getTrackType().toString())
                        .collect(Collectors.joining(",")),
                "resent", admin.consumeMessageDirectly(group, member, topic, id).getConsumeResult());
    }

    private static void showDeadLetters(String group, String address) throws Exception {
        String topic = MixAll.getDLQTopic(group);
        long now = System.currentTimeMillis();
        print("dead", "brokers", admin.examineTopicRouteInfo(topic).getBrokerDatas().size(),
                "bodies", bodies(read(topic, address, 0, now)));
    }

    private static void changeTopic(String address) throws Exception {
        TopicConfig config = new TopicConfig("dashboard-made");
        config.setReadQueueNums(2);
        config.setWriteQueueNums(2);
        admin.createAndUpdateTopicConfig(broker, config);
        DefaultMQProducer producer = new DefaultMQProducer("SELF_TEST_P_GROUP");
        producer.setNamesrvAddr(address);
        producer.setInstanceName("dashboard-sender");
        producer.start();
        String status = producer.send(new Message("dashboard-made", "tag", "key", "x".getBytes())).getSendStatus().toString();
        long count = admin.examineTopicStats("dashboard-made").getOffsetTable().values().stream()
                .mapToLong(each -> each.getMaxOffset()).sum();
        producer.shutdown();
        admin.deleteTopic("dashboard-made", CLUSTER);
        print("changed", "sent", status, "queues", config.getWriteQueueNums(), "messages", count,
                "listed", admin.fetchAllTopicList().getTopicList().contains("dashboard-made"));
    }

    private static void changeGroup() throws Exception {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName("dashboard-group");
        config.setRetryMaxTimes(3);
        admin.createAndUpdateSubscriptionGroupConfig(broker, config);
        int tries = admin.examineSubscriptionGroupConfig(broker, "dashboard-group").getRetryMaxTimes();
        admin.deleteSubscriptionGroup(broker, "dashboard-group", true);
        print("group", "tries", tries, "listed", admin.getAllSubscriptionGroup(broker, TIMEOUT_MS)
                .getSubscriptionGroupTable().containsKey("dashboard-group"));
    }

    private static void changeUsers() throws Exception {
        admin.createUser(broker, "dashboard-user", "a-secret-for-it", "Normal");
        admin.createAcl(broker, "User:dashboard-user", List.of("Topic:x"), List.of("Pub"), List.of(), "Allow");
        List<String> names = admin.listUser(broker, "dashboard").stream().map(UserInfo::getUsername).collect(Collectors.toList());
        String resource = admin.getAcl(broker, "User:dashboard-user").getPolicies().get(0).getEntries().get(0).getResource();
        admin.deleteAcl(broker, "User:dashboard-user", "Topic:x");
        admin.deleteUser(broker, "dashboard-user");
        print("users", "names", names, "resource", resource, "left", admin.listUser(broker, "dashboard").size());
    }

    private static void showStart(String topic, String group) throws Exception {
        BrokerStatsData sent = admin.viewBrokerStatsData(broker, "TOPIC_PUT_NUMS", topic);
        BrokerStatsData got = admin.viewBrokerStatsData(broker, "GROUP_GET_NUMS", topic + "@" + group);
        print("start", "sent", sent.getStatsMinute().getSum(), "got", got.getStatsMinute().getSum());
    }
}
