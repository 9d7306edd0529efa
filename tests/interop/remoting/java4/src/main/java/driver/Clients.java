package driver;

import org.apache.rocketmq.client.ClientConfig;

/** What all clients of this program have in common. */
final class Clients {
    /** A client gives the server 3 s for a route or an offset: less than a new virtual machine takes on a busy computer. */
    private static final int PATIENCE_MS = 30_000;

    private Clients() {
    }

    /** Sets where the client finds name servers, unless that is "none", and which instance it is. */
    static void configure(ClientConfig client, String address, String instance) {
        if (!address.equals("none")) {
            client.setNamesrvAddr(address);
        }
        client.setInstanceName(instance);
        client.setMqClientApiTimeout(PATIENCE_MS);
    }
}
