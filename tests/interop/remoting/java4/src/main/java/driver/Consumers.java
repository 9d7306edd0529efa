package driver;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/** Consumers of all kinds; each prints the messages that it gets. */
final class Consumers {
    private static final long POLL_MS = 500;
    private static final int BODY_SHOWN_BYTES = 65536;
    private static final int BEGIN_BYTES = 8;

    private Consumers() {
    }

    interface Consumer {
        void seek(Line command) throws Exception;

        void stop();
    }

    static void printGot(String name, MessageExt message) {
        Line line = new Line().with("event", "got").with("name", name).with("topic", message.getTopic())
                .with("body", shorten(message.getBody())).with("bytes", message.getBody().length)
                .with("crc", message.getBodyCRC()).with("tag", message.getTags())
                .with("keys", message.getKeys()).with("id", message.getMsgId())
                .with("queue", message.getQueueId()).with("offset", message.getQueueOffset())
                .with("times", message.getReconsumeTimes()).with("flag", message.getFlag())
                .with("born", message.getBornTimestamp()).with("stored", message.getStoreTimestamp())
                .with("clock", System.currentTimeMillis()).with("thread", Thread.currentThread().getId());
        new TreeMap<>(message.getProperties()).forEach((key, value) -> line.with("p." + key, value));
        line.print();
    }

    private static String shorten(byte[] body) {
        return Producers.text(body.length > BODY_SHOWN_BYTES ? Arrays.copyOf(body, BEGIN_BYTES) : body);
    }

    /**
     * Messages whose body begins with "fail-N-" fail N times; those with "poison-" always; those with "throw-" by an
     * exception, once.
     */
    static boolean fails(MessageExt message) {
        String body = Producers.text(message.getBody());
        if (body.startsWith("throw-") && message.getReconsumeTimes() == 0) {
            throw new IllegalStateException(body);
        }
        return body.startsWith("poison-")
                || body.startsWith("fail-") && message.getReconsumeTimes() < Integer.parseInt(body.split("-")[1]);
    }

    // The enumeration of models is in another package in RocketMQ 5.
    private static void setModel(Object consumer, String model) throws Exception {
        for (Method method : consumer.getClass().getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                Class<?> type = method.getParameterTypes()[0];
                method.invoke(consumer, type.getMethod("valueOf", String.class).invoke(null, model));
            }
        }
    }

    // RocketMQ 4 has no such settings.
    private static void setOfRelease5(Object consumer, String setter, Class<?> type, Object value) throws Exception {
        consumer.getClass().getMethod(setter, type).invoke(consumer, value);
    }

    static Consumer push(String address, Line command, RPCHook hook) throws Exception {
        String name = command.get("name");
        DefaultMQPushConsumer consumer =
                new DefaultMQPushConsumer(command.get("group"), hook, new AllocateMessageQueueAveragely(),
                        !command.get("traces").isEmpty(), null);
        Clients.configure(consumer, address, command.get("instance", name));
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(command.get("from", "CONSUME_FROM_FIRST_OFFSET")));
        if (!command.get("timestamp").isEmpty()) {
            consumer.setConsumeTimestamp(command.get("timestamp"));
        }
        if (!command.get("max_times").isEmpty()) {
            consumer.setMaxReconsumeTimes(command.number("max_times", 16));
        }
        if (!command.get("tls").isEmpty()) {
            consumer.setUseTLS(true);
        }
        setModel(consumer, command.get("model", "CLUSTERING"));
        if (!command.get("server_rebalance").isEmpty()) {
            setOfRelease5(consumer, "setClientRebalance", boolean.class, false);
            setOfRelease5(consumer, "setPopInvisibleTime", long.class, Long.parseLong(command.get("invisible_ms", "60000")));
        }
        for (String topic : command.all("topic")) {
            if (command.get("sql").isEmpty()) {
                consumer.subscribe(topic, command.get("tags", "*"));
            } else {
                consumer.subscribe(topic, MessageSelector.bySql(command.get("sql")));
            }
        }
        DefaultMQProducer replies = null;
        if (!command.get("replies").isEmpty()) {
            replies = new DefaultMQProducer(command.get("group") + "-replies", hook);
            Clients.configure(replies, address, name);
            replies.start();
        }
        if (command.get("counts").isEmpty()) {
            listen(consumer, name, command, replies);
        } else {
            Load.count(consumer, command.get("group"));
        }
        consumer.start();
        DefaultMQProducer replying = replies;
        return new Consumer() {
            @Override
            public void seek(Line ignored) {
                throw new UnsupportedOperationException();
            }

            @Override
            public void stop() {
                consumer.shutdown();
                if (replying != null) {
                    replying.shutdown();
                }
            }
        };
    }

    private static void listen(DefaultMQPushConsumer consumer, String name, Line command, DefaultMQProducer replies) {
        int level = command.number("delay_level", 0);
        long sleepMs = command.number("sleep_ms", 0);
        if (command.get("orderly").isEmpty()) {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(level);
                boolean failed = false;
                for (MessageExt message : messages) {
                    printGot(name, message);
                    failed |= fails(message);
                    if (replies != null) {
                        reply(replies, message);
                    }
                }
                sleep(sleepMs);
                return failed ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                boolean failed = false;
                for (MessageExt message : messages) {
                    printGot(name, message);
                    failed |= fails(message);
                }
                sleep(sleepMs);
                return failed ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
            });
        }
    }

    private static void reply(DefaultMQProducer producer, MessageExt message) {
        try {
            byte[] body = ("reply to " + Producers.text(message.getBody())).getBytes("UTF-8");
            Message reply = MessageUtil.createReplyMessage(message, body);
            producer.send(reply, 5000);
        } catch (Exception error) {
            new Line().with("event", "failed").with("error", error).print();
        }
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    static Consumer lite(String address, Line command, RPCHook hook) throws Exception {
        String name = command.get("name");
        String topic = command.get("topic");
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(command.get("group"), hook);
        Clients.configure(consumer, address, name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(command.get("from", "CONSUME_FROM_FIRST_OFFSET")));
        if (command.get("assign").isEmpty()) {
            consumer.subscribe(topic, command.get("tags", "*"));
        }
        consumer.start();
        if (!command.get("assign").isEmpty()) {
            List<MessageQueue> queues = new ArrayList<>(consumer.fetchMessageQueues(topic));
            consumer.assign(queues);
            for (MessageQueue queue : queues) {
                consumer.seekToBegin(queue);
            }
        }
        Thread polling = new Thread(() -> {
            while (!Thread.currentThread().isInterrupted() && consumer.isRunning()) {
                consumer.poll(POLL_MS).forEach(message -> printGot(name, message));
            }
        }, "polling");
        polling.setDaemon(true);
        polling.start();
        return new Consumer() {
            @Override
            public void seek(Line given) throws Exception {
                for (MessageQueue queue : consumer.fetchMessageQueues(topic)) {
                    consumer.seek(queue, given.number("offset", 0));
                }
            }

            @Override
            public void stop() {
                consumer.commitSync();
                consumer.shutdown();
            }
        };
    }

    /** Says of a queue where it begins and ends, what its group committed, and where the messages of a time begin. */
    static void describeQueue(String address, Line command, RPCHook hook, Line answer) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(command.get("group"), hook);
        Clients.configure(consumer, address, command.get("name"));
        consumer.start();
        MessageQueue queue =
                new MessageQueue(command.get("topic"), command.get("broker"), command.number("queue", 0));
        answer.with("min", consumer.minOffset(queue)).with("max", consumer.maxOffset(queue))
                .with("committed", consumer.fetchConsumeOffset(queue, true));
        for (String time : command.all("time")) {
            answer.with("found", consumer.searchOffset(queue, Long.parseLong(time)));
        }
        consumer.shutdown();
    }

    /** Pulls all messages of a topic that are there, queue by queue, by the oldest of the three kinds of consumers. */
    static void pullAll(String address, Line command, RPCHook hook, Line answer) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(command.get("group"), hook);
        Clients.configure(consumer, address, command.get("name"));
        consumer.start();
        int count = 0;
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(command.get("topic"))) {
            long offset = Math.max(consumer.minOffset(queue), consumer.fetchConsumeOffset(queue, true));
            while (offset < consumer.maxOffset(queue)) {
                PullResult result = consumer.pull(queue, command.get("tags", "*"), offset, 32);
                if (result.getPullStatus() == PullStatus.FOUND) {
                    for (MessageExt message : result.getMsgFoundList()) {
                        printGot(command.get("name"), message);
                        count++;
                    }
                }
                offset = result.getNextBeginOffset();
            }
            consumer.updateConsumeOffset(queue, offset);
            // What it does by itself for queues that it shares with others only.
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
        }
        consumer.shutdown();
        answer.with("count", count);
    }
}
