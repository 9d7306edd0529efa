package driver;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Does what the lines of its input say with the client of RocketMQ 4, and prints what happens; see the README beside the
 * languages. It runs with the client of RocketMQ 5 too.
 */
public final class Driver {
    private static final int TRIES = 20;
    private final String address;
    private final Map<String, Producers.Producer> producers = new HashMap<>();
    private final Map<String, Consumers.Consumer> consumers = new HashMap<>();

    private Driver(String address) {
        this.address = address;
    }

    public static void main(String[] args) throws Exception {
        Driver driver = new Driver(args[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String text = input.readLine(); text != null; text = input.readLine()) {
            Line command = Line.parse(text);
            Line answer = new Line().with("event", "done").with("number", command.get("number"));
            try {
                driver.carryOut(command, answer);
            } catch (Exception | LinkageError error) {
                describe(error, answer.with("error", error.toString()));
            }
            answer.print();
        }
        Runtime.getRuntime().halt(0);
    }

    /**
     * Carries a command out. A new client of 5.5.0 lists the machine's network interfaces, and throws a
     * NullPointerException if one goes away meanwhile, as those of containers do: no client exists then, and the
     * command is carried out again.
     */
    private void carryOut(Line command, Line answer) throws Exception {
        for (int left = TRIES; ; left--) {
            try {
                carryOutOnce(command, answer);
                return;
            } catch (NullPointerException error) {
                StackTraceElement[] trace = error.getStackTrace();
                if (left == 1 || trace.length == 0 || !trace[0].getClassName().endsWith(".NetworkUtil")) {
                    throw error;
                }
            }
        }
    }

    private void carryOutOnce(Line command, Line answer) throws Exception {
        String name = command.get("name");
        switch (command.get("op")) {
            case "producer":
                producers.put(name, Producers.start(command.get("address", address), command, hook(command)));
                break;
            case "send":
                producers.get(name).send(command, answer);
                break;
            case "batch":
                producers.get(name).sendBatch(command, answer);
                break;
            case "transaction":
                producers.get(name).sendInTransaction(command, answer);
                break;
            case "request":
                producers.get(name).request(command, answer);
                break;
            case "flood":
                producers.get(name).flood(command);
                break;
            case "tally":
                Load.describe(command, answer);
                break;
            case "push":
                consumers.put(name, Consumers.push(command.get("address", address), command, hook(command)));
                break;
            case "lite":
                consumers.put(name, Consumers.lite(address, command, hook(command)));
                break;
            case "pull":
                Consumers.pullAll(address, command, hook(command), answer);
                break;
            case "offsets":
                Consumers.describeQueue(address, command, hook(command), answer);
                break;
            case "seek":
                consumers.get(name).seek(command);
                break;
            case "stop":
                if (producers.containsKey(name)) {
                    producers.remove(name).stop();
                } else {
                    consumers.remove(name).stop();
                }
                break;
            default:
                throw new IllegalArgumentException("no such command: " + command.get("op"));
        }
    }

    private static RPCHook hook(Line command) {
        String key = command.get("access_key");
        return key.isEmpty() ? null : new AclClientRPCHook(new SessionCredentials(key, command.get("secret_key")));
    }

    private static void describe(Throwable error, Line answer) {
        if (error instanceof MQBrokerException) {
            answer.with("code", ((MQBrokerException) error).getResponseCode());
        } else if (error instanceof MQClientException) {
            answer.with("code", ((MQClientException) error).getResponseCode());
        }
    }
}
