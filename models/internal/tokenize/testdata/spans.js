// Spans writes to spans.json where the tokens of texts are, as tokenizers 0.23.2 for Node.js (npm
// install tokenizers) has it: node spans.js > spans.json. Places are in bytes. A text is one of
// letters that normalizers change, and that are in several tokens.
const { Tokenizer } = require('tokenizers')

const count = +(process.argv[2] || 12)

// the map of: ﬁ fi, ① 1, é é, tab and newline space, … ..., ａ a, U+00AD nothing, e and U+0301 é,
// ㌀ アパート, U+200B space
const map = 'AAQAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACQUAAAAAAIACAACACgUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAACAgQUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACsCAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAC9CAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgAQAAAAAAABlBAAAAAAAAAAAAAAAAAAAAAAAAAAAAACpBQAACAAAgIwEAAAAAAAABwAAgK0FAAAAAAAAAAAAAAAAAACRBAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADMBAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIEFAAAgAACAwwQAAMIEAAANAACApgUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAjAACAgQUAAKAFAAARAACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADjCAAA4gQAAAAAAAAAAAAAAAAAAAAAAACLBQAACwAAgAAAAAAAAAAAEwAAgIAFAADvBAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgACAAw6kAAMOpACAALi4uADEA44Ki44OR44O844OIAGZpAGEA'

// letters of bytes, as GPT-2 has them
const byteLetters = []
for (let b = 0, n = 256; b < 256; b++) {
  const shown = (b > 32 && b < 127) || (b > 160 && b !== 173)
  byteLetters.push(String.fromCodePoint(shown ? b : n++))
}
const numbered = (tokens) => Object.fromEntries(tokens.map((t, i) => [t, i]))
const toLetters = (text) => [...Buffer.from(text)].map((b) => byteLetters[b]).join('')

const byteLevel = (more) => ({
  type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null,
  end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false,
  vocab: numbered([...byteLetters, 'ab', 'Ġa', 'Ġab', 'ĠĠ', 'Ã©', toLetters('中').slice(0, 2),
    toLetters('😀').slice(0, 2), toLetters('😀').slice(0, 3), 'aĠ']),
  merges: [['a', 'b'], ['Ġ', 'a'], ['Ġ', 'ab'], ['Ġ', 'Ġ'], ['Ã', '©'],
    [...toLetters('中')].slice(0, 2), [...toLetters('😀')].slice(0, 2),
    [toLetters('😀').slice(0, 2), [...toLetters('😀')][2]], ['a', 'Ġ']], ...more,
})
const bytes = [...Array(256).keys()].map((b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`)
const letters = (more) => ({
  type: 'BPE', dropout: null, unk_token: '?', continuing_subword_prefix: null,
  end_of_word_suffix: null, fuse_unk: true, byte_fallback: false, ignore_merges: false,
  vocab: numbered(['?', '▁', 'a', 'b', 'é', '中', 'e', 'f', 'i', '▁a', 'ab', '▁ab', '@b', '@a',
    'a@b', 'b/', 'a/', '\u0301', '!', '1', ' ', ...bytes]),
  merges: [['▁', 'a'], ['a', 'b'], ['▁', 'ab']], ...more,
})
const unigram = (more) => ({
  type: 'Unigram', unk_id: 0, byte_fallback: false,
  vocab: [['<unk>', 0], ['▁', -2], ['a', -3], ['b', -3], ['▁a', -4], ['ab', -4.5], ['é', -4],
    ['fi', -3], ['1', -3], ['...', -2], ['ア', -4], ['!', -3], ...bytes.map((b) => [b, -20])],
  ...more,
})
const wordPiece = {
  type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##',
  max_input_chars_per_word: 8,
  vocab: numbered(['[UNK]', 'a', '##a', 'b', '##b', 'ab', '##ab', 'e', '##e', '中', 'é', '##é', '!',
    'i', '##i', 'f', '##f', '1']),
}
const regex = (pattern) => ({ type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false })
const sequence = (key, ...list) => ({ type: 'Sequence', [key]: list })
const replace = (pattern, content) => ({ type: 'Replace', pattern, content })
const bytePre = (space, use) => ({ type: 'ByteLevel', add_prefix_space: space, trim_offsets: true, use_regex: use })
const meta = (scheme, split) => ({ type: 'Metaspace', replacement: '▁', prepend_scheme: scheme, split })
const roberta = (space, trim) => ({ type: 'RobertaProcessing', sep: ['b', 3], cls: ['a', 2], trim_offsets: trim, add_prefix_space: space })
const bert = (o) => ({ type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true, ...o })
const words = { type: 'BertPreTokenizer' }

const added = (first) => [['<m>', true, true, false], ['bb', false, false, false], ['ÉÉ', false, true, true]]
  .map(([content, lstrip, rstrip, normalized], i) => ({ id: first + i, content, lstrip, rstrip, normalized, single_word: false, special: false }))

const kinds = {
  gpt2: { pre_tokenizer: bytePre(false, true), model: byteLevel() },
  'gpt2 trims': { pre_tokenizer: bytePre(false, true), post_processor: bytePre(false, true), model: byteLevel() },
  roberta: { pre_tokenizer: bytePre(true, true), post_processor: roberta(true, true), model: byteLevel() },
  'roberta, no trims': { pre_tokenizer: bytePre(true, true), post_processor: roberta(true, false), model: byteLevel() },
  'no words': { pre_tokenizer: bytePre(true, false), post_processor: bytePre(true, true), model: byteLevel() },
  qwen: { normalizer: { type: 'NFC' }, pre_tokenizer: sequence('pretokenizers',
    regex("[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
    bytePre(false, false)), model: byteLevel({ ignore_merges: true }) },
  nfd: { normalizer: { type: 'NFD' }, model: letters() },
  nfkc: { normalizer: { type: 'NFKC' }, model: letters() },
  nfkd: { normalizer: sequence('normalizers', { type: 'NFKD' }, { type: 'StripAccents' }, { type: 'Lowercase' }), model: letters({ fuse_unk: false }) },
  'llama 2': { normalizer: sequence('normalizers', { type: 'Prepend', prepend: '▁' }, replace({ String: ' ' }, '▁')), model: letters({ byte_fallback: true }) },
  gemma: { normalizer: replace({ String: ' ' }, '▁'), pre_tokenizer: { type: 'Split', pattern: { String: ' ' }, behavior: 'MergedWithPrevious', invert: false }, model: letters({ byte_fallback: true }) },
  'prefix and suffix': { pre_tokenizer: { type: 'WhitespaceSplit' }, model: letters({ continuing_subword_prefix: '@', end_of_word_suffix: '/', merges: [] }) },
  digits: { pre_tokenizer: sequence('pretokenizers', { type: 'Digits', individual_digits: true }, meta('first', true)), model: letters() },
  strip: { normalizer: sequence('normalizers', { type: 'Strip', strip_left: true, strip_right: true }, replace({ Regex: '[ab]{2,}' }, 'ab'), replace({ String: 'é' }, 'e!')), pre_tokenizer: meta('always', false), model: letters() },
  lines: { normalizer: replace({ Regex: '^' }, '▁'), model: letters() },
  xlmr: { normalizer: sequence('normalizers', { type: 'Precompiled', precompiled_charsmap: map }, replace({ Regex: ' {2,}' }, ' ')), pre_tokenizer: sequence('pretokenizers', { type: 'WhitespaceSplit' }, meta('always', true)), model: unigram() },
  deberta: { normalizer: sequence('normalizers', { type: 'Strip', strip_left: true, strip_right: true }, { type: 'Precompiled', precompiled_charsmap: map }, replace({ Regex: ' {2,}' }, ' ')), pre_tokenizer: meta('always', true), model: unigram({ byte_fallback: true }) },
  nmt: { normalizer: { type: 'Nmt' }, pre_tokenizer: meta('never', true), model: unigram() },
  bert: { normalizer: bert(), pre_tokenizer: words, model: wordPiece },
  'bert, cased': { normalizer: bert({ lowercase: false }), pre_tokenizer: words, model: wordPiece },
  'bert, with accents': { normalizer: bert({ strip_accents: false, clean_text: false, handle_chinese_chars: false }), pre_tokenizer: words, model: wordPiece },
  added: { added_tokens: added(265), normalizer: { type: 'Lowercase' }, pre_tokenizer: bytePre(true, true), model: byteLevel() },
  'added, trims': { added_tokens: added(265), normalizer: { type: 'Lowercase' }, pre_tokenizer: bytePre(false, true), post_processor: roberta(false, true), model: byteLevel() },
  'added, normalized': { added_tokens: added(277), normalizer: { type: 'NFKC' }, pre_tokenizer: meta('first', true), model: letters() },
}

const alphabet = ['a', 'b', 'ab', ' ', ' ', '  ', '\t', '\n', 'é', 'e\u0301', 'É', 'A', 'ﬁ', '①', '…', '中',
  '文', '😀', '👩‍👧', '!', '1', '23', '\u0301', 'a\u0323\u0301', 'ạ\u0301', 'á\u0323', '각', '\u00ad', 'İ', 'ａ', '㌀', '\u200b', "'s", '\u2003', '▁',
  '\u0001', '<m>', ' <m> ', 'éé', 'bb', 'ﬀ\u0301']
let seed = 7n
const random = (n) => {
  seed = (seed * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n)
  return Number((seed >> 33n) % BigInt(n))
}

async function main () {
  const cases = []
  for (const [name, kind] of Object.entries(kinds)) {
    kinds[name] = { version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null,
      pre_tokenizer: null, post_processor: null, decoder: null, ...kind }
    const tokenizer = Tokenizer.fromString(JSON.stringify(kinds[name]))
    for (let i = 0; i < count; i++) {
      let text = ''
      for (let n = random(9); n >= 0; n--) text += alphabet[random(alphabet.length)]
      // letters that the map drops at the beginning shift all places in tokenizers
      if (kind.normalizer?.normalizers?.some((n) => n.precompiled_charsmap)) {
        text = text.replaceAll('\u0001', '').replace(/^\s*\u00ad+/u, '')
      }
      const e = await tokenizer.encode(text, null, { addSpecialTokens: false })
      const places = [0]
      for (const letter of text) places.push(places[places.length - 1] + Buffer.byteLength(letter))
      const offsets = e.getOffsets()
      cases.push([name, text, e.getIds().map((id, i) => [id, places[offsets[i][0]], places[offsets[i][1]]])])
    }
  }
  console.log('{"kinds": {')
  console.log(Object.entries(kinds).map(([name, kind]) => JSON.stringify(name) + ': ' + JSON.stringify(kind)).join(',\n'))
  console.log('}, "cases": [')
  console.log(cases.map((c) => JSON.stringify(c)).join(',\n'))
  console.log(']}')
}
main()
