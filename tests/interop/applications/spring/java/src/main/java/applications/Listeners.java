package applications;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.MessageModel;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.annotation.SelectorType;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQPushConsumerLifecycleListener;
import org.apache.rocketmq.spring.core.RocketMQReplyListener;
import org.springframework.messaging.Message;
import org.springframework.stereotype.Component;

/** Listeners of all kinds that rocketmq-spring-boot-starter has. */
final class Listeners {
    private Listeners() {
    }

    private static void print(String listener, MessageExt message) {
        Events.print("got", "listener", listener, "body", new String(message.getBody(), StandardCharsets.UTF_8),
                "tag", message.getTags(), "keys", message.getKeys(), "color", message.getUserProperty("color"),
                "queue", message.getQueueId(), "times", message.getReconsumeTimes(), "id", message.getMsgId(),
                "born", message.getBornTimestamp(), "clock", System.currentTimeMillis());
    }

    @Component
    @RocketMQMessageListener(topic = "spring-orders", consumerGroup = "spring-all")
    static class All implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            print("all", message);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "spring-orders", consumerGroup = "spring-red", selectorExpression = "red")
    static class Red implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            print("red", message);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "spring-orders", consumerGroup = "spring-sql", selectorType = SelectorType.SQL92,
            selectorExpression = "color = 'blau ü' AND TAGS = 'blue'", messageModel = MessageModel.BROADCASTING)
    static class Sql implements RocketMQListener<MessageExt>, RocketMQPushConsumerLifecycleListener {
        @Override
        public void prepareStart(DefaultMQPushConsumer consumer) {
            // Otherwise it misses what is sent while it starts.
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        }

        @Override
        public void onMessage(MessageExt message) {
            print("sql", message);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "spring-ordered", consumerGroup = "spring-ordered", consumeMode = ConsumeMode.ORDERLY)
    static class Ordered implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            print("ordered", message);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "spring-delayed", consumerGroup = "spring-delayed")
    static class Delayed implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            print("delayed", message);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "spring-failing", consumerGroup = "spring-failing", delayLevelWhenNextConsume = 1)
    static class Failing implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            print("failing", message);
            if (message.getReconsumeTimes() == 0) {
                throw new IllegalStateException("the first time");
            }
        }
    }

    @Component
    @RocketMQMessageListener(topic = "spring-objects", consumerGroup = "spring-objects")
    static class Objects implements RocketMQListener<SpringProgram.Order> {
        @Override
        public void onMessage(SpringProgram.Order order) {
            Events.print("got", "listener", "objects", "body", order.id + " " + order.name);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "spring-transactions", consumerGroup = "spring-transactions")
    static class Transactions implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            print("transactions", message);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "spring-requests", consumerGroup = "spring-replies")
    static class Replies implements RocketMQReplyListener<String, String> {
        @Override
        public String onMessage(String question) {
            return "reply to " + question;
        }
    }

    /** Ends transactions as their body says, those that begin with "check-" when it is asked. */
    @RocketMQTransactionListener
    static class Ends implements RocketMQLocalTransactionListener {
        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return decide(text(message));
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            String body = text(message);
            Events.print("checked", "body", body);
            return decide(body.substring("check-".length()));
        }

        private static String text(Message<?> message) {
            Object payload = message.getPayload();
            return payload instanceof byte[] ? new String((byte[]) payload, StandardCharsets.UTF_8) : payload.toString();
        }

        private static RocketMQLocalTransactionState decide(String body) {
            if (body.startsWith("commit")) {
                return RocketMQLocalTransactionState.COMMIT;
            }
            return body.startsWith("rollback") ? RocketMQLocalTransactionState.ROLLBACK : RocketMQLocalTransactionState.UNKNOWN;
        }
    }
}
