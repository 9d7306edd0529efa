// Sends, ends transactions and recalls as its input says, and prints what happens; see the README beside the languages.
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Producer } from 'rocketmq-client-nodejs';
import definition from 'rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb.js';

const { COMMIT, ROLLBACK, TRANSACTION_RESOLUTION_UNSPECIFIED } = definition.TransactionResolution;
const ANSWERS = { commit: COMMIT, rollback: ROLLBACK, unknown: TRANSACTION_RESOLUTION_UNSPECIFIED };

// The client's default logger is one file for the whole process, and the first client that shuts down closes it.
const quiet = () => {};
const logger = { debug: quiet, info: quiet, warn: console.error, error: console.error, close: quiet };

const begun = new Map();
const asked = new Set();

async function main(endpoint, topic, namespace = '') {
  const producer = new Producer({
    endpoints: endpoint,
    namespace,
    sslEnabled: false,
    logger,
    topics: [topic],
    checker: { check },
  });
  await producer.startup();
  show('ready', topic);
  for await (const line of createInterface({ input: process.stdin })) {
    await run(producer, topic, line.split(' '));
  }
  await producer.shutdown();
}

// Carries out one command and prints its outcome.
async function run(producer, topic, [command, body, argument]) {
  try {
    show(...await commands[command](producer, topic, body, argument));
  } catch (error) {
    console.error(command, body, error);
    show('refused', body, code(error));
  }
}

const commands = {
  async send(producer, topic, body) {
    return sent(body, await producer.send({ topic, body: Buffer.from(body) }));
  },
  async half(producer, topic, body) {
    const transaction = producer.beginTransaction();
    begun.set(body, transaction); // before the send: the server may ask before its answer is here
    return sent(body, await producer.send({ topic, body: Buffer.from(body) }, transaction));
  },
  async commit(_producer, _topic, body) {
    await begun.get(body).commit();
    return ['committed', body];
  },
  async rollback(_producer, _topic, body) {
    await begun.get(body).rollback();
    return ['rolled-back', body];
  },
  async timed(producer, topic, body, dueMs) {
    const deliveryTimestamp = new Date(Number(dueMs));
    return sent(body, await producer.send({ topic, body: Buffer.from(body), deliveryTimestamp }));
  },
  async recall(producer, topic, body, handle) {
    const receipt = await producer.recallMessage(topic, handle);
    return ['recalled', body, receipt.messageId];
  },
};

function sent(body, receipt) {
  return ['sent', body, receipt.messageId, receipt.recallHandle || '-'];
}

// Answers the server's question about an orphan.
async function check(message) {
  const body = message.body.toString();
  const answer = body.startsWith('rollback-') ? 'rollback' : commits(body) ? 'commit' : 'unknown';
  show('checked', body, answer);
  return ANSWERS[answer];
}

function commits(body) {
  const again = asked.has(body);
  asked.add(body);
  const [kind] = body.split('-');
  return kind === 'commit' || (kind === 'later' && again) || (kind === 'elsewhere' && !begun.has(body));
}

// The status code in the text of an error: not all errors of the client have it as a field.
function code(error) {
  return /code[=:] ?(\d{5})/.exec(String(error))?.[1] ?? '-';
}

function show(...words) {
  writeSync(1, `${process.pid} ${words.join(' ')}\n`);
}

if (![4, 5].includes(process.argv.length)) {
  console.error('usage: producer.mjs ENDPOINT TOPIC [NAMESPACE]');
  process.exit(2);
}
try {
  await main(...process.argv.slice(2));
} catch (error) {
  console.error(error);
  process.exit(1);
}
process.exit(0);
