package driver;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/** Producers: ordinary ones, and those of transactions. */
final class Producers {
    private static final long CALLBACK_S = 20;

    private Producers() {
    }

    static Producer start(String address, Line command, RPCHook hook) throws Exception {
        String group = command.get("group");
        DefaultMQProducer producer;
        if (command.get("transactions").isEmpty()) {
            producer = new DefaultMQProducer(group, hook, !command.get("traces").isEmpty(), null);
        } else {
            TransactionMQProducer transactions = new TransactionMQProducer(group, hook);
            transactions.setTransactionListener(new Checker());
            producer = transactions;
        }
        Clients.configure(producer, address, command.get("instance", command.get("name")));
        producer.setSendMsgTimeout(30_000);
        producer.setMaxMessageSize(command.number("max_bytes", producer.getMaxMessageSize()));
        if (!command.get("tls").isEmpty()) {
            producer.setUseTLS(true);
        }
        producer.start();
        return new Producer(producer);
    }

    /** The end of a transaction is what its body begins with; what begins with "check-" is decided by a check. */
    private static final class Checker implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return decide(text(message.getBody()));
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String body = text(message.getBody());
            new Line().with("event", "checked").with("body", body)
                    .with("transaction", message.getTransactionId()).print();
            return decide(body.substring("check-".length()));
        }

        private static LocalTransactionState decide(String body) {
            if (body.startsWith("commit")) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
            return body.startsWith("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
        }
    }

    static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }

    /** A body of so many bytes, which begins with a text; no compression makes it smaller by much. */
    private static byte[] pad(String text, int size) {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        byte[] padded = new byte[Math.max(size, body.length)];
        new Random(size).nextBytes(padded);
        System.arraycopy(body, 0, padded, 0, body.length);
        return padded;
    }

    static Message message(Line command, String body) {
        Message message = new Message(command.get("topic"), pad(body, command.number("bytes", 0)));
        if (!command.get("tag").isEmpty()) {
            message.setTags(command.get("tag"));
        }
        if (!command.get("keys").isEmpty()) {
            message.setKeys(command.get("keys"));
        }
        if (!command.get("delay").isEmpty()) {
            message.setDelayTimeLevel(command.number("delay", 0));
        }
        message.setFlag(command.number("flag", 0));
        command.beginningWith("p.").forEach(message::putUserProperty);
        return message;
    }

    static final class Producer {
        private final DefaultMQProducer producer;

        Producer(DefaultMQProducer producer) {
            this.producer = producer;
        }

        void flood(Line command) {
            Load.flood(producer, command);
        }

        void send(Line command, Line answer) throws Exception {
            for (String body : command.all("body")) {
                sendOne(command, message(command, body), answer);
            }
        }

        private void sendOne(Line command, Message message, Line answer) throws Exception {
            switch (command.get("mode", "sync")) {
                case "sync":
                    describe(producer.send(message), answer);
                    break;
                case "oneway":
                    producer.sendOneway(message);
                    break;
                case "async":
                    describe(sendAsynchronously(message), answer);
                    break;
                case "queue":
                    describe(producer.send(message, new MessageQueue(command.get("topic"), command.get("broker"),
                            command.number("queue", 0))), answer);
                    break;
                case "ordered":
                    describe(producer.send(message, (queues, given, key) ->
                            queues.get(Math.floorMod(key.hashCode(), queues.size())), command.get("order")), answer);
                    break;
                default:
                    throw new IllegalArgumentException(command.get("mode"));
            }
        }

        private SendResult sendAsynchronously(Message message) throws Exception {
            CompletableFuture<SendResult> sent = new CompletableFuture<>();
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    sent.complete(result);
                }

                @Override
                public void onException(Throwable error) {
                    sent.completeExceptionally(error);
                }
            });
            return sent.get(CALLBACK_S, TimeUnit.SECONDS);
        }

        void sendBatch(Line command, Line answer) throws Exception {
            List<Message> messages = new ArrayList<>();
            List<String> tags = command.all("tags");
            List<String> topics = command.all("topics");
            for (String body : command.all("body")) {
                int at = messages.size();
                Message message = message(command, body);
                if (!tags.isEmpty()) {
                    message.setTags(tags.get(at));
                    message.setKeys("key-" + body);
                    message.putUserProperty("number", Integer.toString(at));
                }
                if (!topics.isEmpty()) {
                    message.setTopic(topics.get(at));
                }
                messages.add(message);
            }
            describe(producer.send(messages), answer);
        }

        void sendInTransaction(Line command, Line answer) throws Exception {
            Message message = message(command, command.get("body"));
            TransactionSendResult result = producer.sendMessageInTransaction(message, null);
            describe(result, answer);
            answer.with("state", result.getLocalTransactionState());
        }

        void request(Line command, Line answer) throws Exception {
            Message reply = producer.request(message(command, command.get("body")), command.number("timeout_ms", 10_000));
            answer.with("body", text(reply.getBody()));
        }

        private static void describe(SendResult result, Line answer) {
            answer.with("status", result.getSendStatus()).with("id", result.getMsgId())
                    .with("offset_id", result.getOffsetMsgId()).with("queue", result.getMessageQueue().getQueueId())
                    .with("offset", result.getQueueOffset()).with("broker", result.getMessageQueue().getBrokerName());
        }

        void stop() {
            producer.shutdown();
        }
    }
}
