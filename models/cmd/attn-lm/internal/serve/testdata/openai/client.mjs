// Asks a server with the newest client of OpenAI, and fails where an answer is not as its types say.
// Arguments: the base URL, a key, the base URL of a server whose queue is full.
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const [baseURL, apiKey, full] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 60000 });
const messages = [{ role: 'developer', content: 'Be brief.' }, { role: 'user', content: 'Hi' }];
const never = { 257: -100, 258: -100, 259: -100 }; // what would end answers early

async function fails(kind, status, code, call) {
  await assert.rejects(call, (e) => {
    assert.ok(e instanceof kind, `${e.constructor.name}: ${e.message}`);
    assert.equal(e.status, status);
    assert.equal(e.code, code);
    assert.ok(e.requestID);
    return true;
  });
}

const checks = {
  async models() {
    const names = [];
    for await (const m of client.models.list()) names.push(m.id);
    assert.deepEqual(names, ['m', 'e']);
    assert.equal((await client.models.retrieve('m')).id, 'm');
  },

  async completions() {
    const ask = { model: 'm', prompt: 'Hi', seed: 7, max_tokens: 12, logit_bias: never, logprobs: 2 };
    const whole = await client.completions.create({ ...ask, n: 2 });
    assert.equal(whole.object, 'text_completion');
    assert.equal(whole.choices.length, 2);
    assert.equal(whole.choices[0].finish_reason, 'length');
    const l = whole.choices[0].logprobs;
    for (const list of [l.tokens, l.token_logprobs, l.top_logprobs, l.text_offset]) {
      assert.equal(list.length, 12);
    }
    assert.deepEqual(whole.usage.prompt_tokens, 2);
    assert.deepEqual(whole.usage.completion_tokens, 24);
    let text = '', usage;
    const probabilities = [];
    for await (const c of await client.completions.create({ ...ask, stream: true,
      stream_options: { include_usage: true } })) {
      usage = c.usage ?? usage;
      text += c.choices[0]?.text ?? '';
      probabilities.push(...(c.choices[0]?.logprobs?.token_logprobs ?? []));
    }
    assert.equal(text, whole.choices[0].text);
    assert.deepEqual(probabilities, l.token_logprobs);
    assert.equal(usage.completion_tokens, 12);
    const tokens = await client.completions.create({ model: 'm', prompt: [[72, 105], [1]],
      max_tokens: 1 });
    assert.equal(tokens.choices.length, 2);
  },

  async chats() {
    const ask = { model: 'm', messages, seed: -3, max_completion_tokens: 9, temperature: 0.8,
      logprobs: true, top_logprobs: 2, logit_bias: never };
    const whole = await client.chat.completions.create(ask);
    assert.equal(whole.object, 'chat.completion');
    const { message, logprobs, finish_reason: reason } = whole.choices[0];
    assert.equal(message.role, 'assistant');
    assert.equal(reason, 'length');
    assert.equal(logprobs.content.length, 9);
    assert.equal(logprobs.content[0].top_logprobs.length, 2);
    const bytes = Buffer.from(logprobs.content.flatMap((t) => t.bytes));
    assert.equal(new TextDecoder().decode(bytes), message.content);
    let text = '', role, end, last;
    for await (const c of await client.chat.completions.create({ ...ask, stream: true,
      stream_options: { include_usage: true } })) {
      role = role ?? c.choices[0]?.delta.role;
      text += c.choices[0]?.delta.content ?? '';
      end = c.choices[0]?.finish_reason ?? end;
      last = c;
    }
    assert.deepEqual([role, text, end], ['assistant', message.content, 'length']);
    assert.deepEqual(last.choices, []);
    assert.equal(last.usage.total_tokens, whole.usage.total_tokens);
    assert.ok(last.usage.prompt_tokens_details.cached_tokens >= 0);
    // The helper that gathers a stream, and a conversation that goes on with what it was answered.
    const gathered = await client.chat.completions.stream(ask).finalChatCompletion();
    assert.equal(gathered.choices[0].message.content, message.content);
    const next = await client.chat.completions.create({ ...ask,
      messages: [...messages, message, { role: 'user', content: [{ type: 'text', text: 'And?' }] }] });
    assert.equal(next.choices[0].message.role, 'assistant');
  },

  async thinking() {
    // Where a template separates nothing there is no reasoning_content.
    const made = await client.chat.completions.create({ model: 'm', messages, max_tokens: 2 });
    assert.ok(!('reasoning_content' in made.choices[0].message));
  },

  async aborts() {
    for await (const c of await client.completions.create({ model: 'm', prompt: 'x', stream: true,
      max_tokens: 400, logit_bias: never })) {
      assert.equal(c.object, 'text_completion');
      break; // which closes the connection
    }
  },

  async embeddings() {
    const input = ['a text', 'another one'];
    const packed = await client.embeddings.create({ model: 'e', input }); // base64, as ever
    const plain = await client.embeddings.create({ model: 'e', input, encoding_format: 'float' });
    assert.equal(packed.data.length, 2);
    for (const i of [0, 1]) {
      assert.equal(packed.data[i].index, i);
      assert.deepEqual([...packed.data[i].embedding].map(Math.fround),
        plain.data[i].embedding.map(Math.fround));
    }
    assert.ok(plain.usage.prompt_tokens > 0);
  },

  async errors() {
    const { BadRequestError, AuthenticationError, NotFoundError, RateLimitError } = OpenAI;
    const ask = { model: 'm', messages };
    const create = (more, c = client) => () => c.chat.completions.create({ ...ask, ...more });
    await fails(BadRequestError, 400, 'unknown_parameter', create({ verbosity: 'low' }));
    await fails(BadRequestError, 400, null, create({ tools: [{ type: 'function' }] }));
    await fails(BadRequestError, 400, null, create({ temperature: -1 }));
    await fails(BadRequestError, 400, 'context_length_exceeded',
      create({ messages: [{ role: 'user', content: 'x'.repeat(600) }], stream: true }));
    await fails(NotFoundError, 404, 'model_not_found', create({ model: 'gpt-9' }));
    await fails(NotFoundError, 404, 'not_found', () => client.responses.create({ model: 'm',
      input: 'x' }));
    await fails(AuthenticationError, 401, 'invalid_api_key',
      create({}, new OpenAI({ baseURL, apiKey: 'wrong', maxRetries: 0 })));
    await fails(RateLimitError, 429, 'queue_full',
      create({}, new OpenAI({ baseURL: full, apiKey, maxRetries: 0 })));
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(`${name}: as expected`);
}
