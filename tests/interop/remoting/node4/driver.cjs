// Does what the lines of its input say with the client of RocketMQ 4, and prints what happens; see the README beside
// the languages.
'use strict';

const fs = require('node:fs');
const readline = require('node:readline');
const { Consumer, Message, Producer } = require('ali-ons');

const address = process.argv[2];
const running = new Map();
const quiet = { debug() {}, info() {}, warn() {}, error: (...parts) => console.error(...parts) };

function show(pairs) {
  fs.writeSync(1, `${new URLSearchParams(pairs)}\n`);
}

// The client asks for credentials, and signs with them.
function options(command) {
  return {
    nameSrv: address,
    httpclient: {},
    logger: quiet,
    clientIP: '127.0.0.1',
    instanceName: `${process.pid}-${command.get('name')}`,
    accessKeyId: command.get('access_key') || 'nobody',
    accessKeySecret: command.get('secret_key') || 'nothing',
  };
}

function messageOf(command, body) {
  const message = new Message(command.get('topic'), command.get('tag') || '', body);
  if (command.has('keys')) message.keys = command.get('keys').split(' ');
  if (command.has('delay')) message.delayTimeLevel = Number(command.get('delay'));
  for (const [name, value] of command) {
    if (name.startsWith('p.')) message.properties[name.slice(2)] = value;
  }
  return message;
}

function fails(message) {
  const body = message.body.toString();
  return body.startsWith('poison-')
    || (body.startsWith('fail-') && message.reconsumeTimes < Number(body.split('-')[1]));
}

function showGot(name, message) {
  const pairs = {
    event: 'got', name, topic: message.topic, body: message.body.toString(), tag: message.tags || '',
    keys: message.keys || '', id: message.msgId, queue: message.queueId, offset: String(message.queueOffset),
    times: message.reconsumeTimes, flag: message.flag, born: String(message.bornTimestamp),
    stored: String(message.storeTimestamp), clock: Date.now(),
  };
  for (const [key, value] of Object.entries(message.properties)) pairs[`p.${key}`] = value;
  show(pairs);
}

async function carryOut(command) {
  const name = command.get('name');
  switch (command.get('op')) {
    case 'producer': {
      const producer = new Producer({ ...options(command), producerGroup: command.get('group') });
      await producer.ready();
      running.set(name, producer);
      return {};
    }
    case 'send': {
      let result;
      for (const body of command.getAll('body')) result = await running.get(name).send(messageOf(command, body));
      return {
        status: result.sendStatus, id: result.msgId, offset: String(result.queueOffset),
        queue: result.messageQueue.queueId, broker: result.messageQueue.brokerName,
      };
    }
    case 'push': {
      const consumer = new Consumer({
        ...options(command),
        consumerGroup: command.get('group'),
        consumeFromWhere: command.get('from') || 'CONSUME_FROM_FIRST_OFFSET',
        isBroadcast: command.get('model') === 'BROADCASTING',
      });
      const passing = command.has('sql')
        ? { expressionType: 'SQL92', subString: command.get('sql') } : command.get('tags') || '*';
      for (const topic of command.getAll('topic')) {
        consumer.subscribe(topic, passing, async message => {
          showGot(name, message);
          if (fails(message)) throw new Error('as the body says');
        });
      }
      consumer.on('error', error => console.error(error));
      await consumer.ready();
      running.set(name, consumer);
      return {};
    }
    case 'stop':
      await running.get(name).close();
      running.delete(name);
      return {};
    default:
      throw new Error(`no such command: ${command.get('op')}`);
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = new URLSearchParams(line);
    let answer;
    try {
      answer = await carryOut(command);
    } catch (error) {
      answer = { error: String(error) };
    }
    show({ event: 'done', number: command.get('number'), ...answer });
  }
  process.exit(0);
}

main();
