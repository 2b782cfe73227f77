package chat

import (
	"strings"
	"testing"
)

// TestRender writes conversations with what templates of published models use.
func TestRender(t *testing.T) {
	const chatML = `{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + ` +
		`message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}` +
		`{{ '<|im_start|>assistant\n' }}{% endif %}`
	const longer = `{{- bos_token }}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- The first message is apart. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1, found=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.found and message.content is string and message.content.startswith('W') %}
        {%- set ns.found = true %}
    {%- endif %}
{%- endfor %}
{%- if tools is not none %}
    {{- tools | tojson }}
{%- endif %}
{{- '[' + system + ']' }}
{%- for message in messages %}
    {%- if loop.last %}
        {{- message.content.strip('?').split('o')[-1] + eos_token }}
    {%- endif %}
{%- endfor %}
`
	const blocks = "{% if true %}\n  {% set x = 1 %}\nyes\n{% endif %}\n{{ x }}"
	const alternate = `{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}` +
		`{{ raise_exception('Roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}`
	for _, c := range []struct{ name, source, want string }{
		{"ChatML", chatML, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n" +
			"<|im_start|>assistant\n"},
		{"longer", longer, "<s>[Be brief.]</s>"},
		{"blocks", blocks, "yes\n1"},
		{"refusal", alternate, "error: Roles must alternate"},
		{"refusal without words", "{{ raise_exception() }}", "error: it refuses the conversation"},
		{"none", "", "error: the model has no chat template"},
		{"damaged", "{% if %}", "error: the chat template"},
		{"a function of nobody", "{{ launch() }}", "error: the chat template"},
		{"a file", "{% include '/etc/hostname' %}", "error: the chat template"},
	} {
		got, err := (&Template{c.source, "<s>", "</s>"}).Render(Message{"system", "Be brief."},
			Message{"user", "Who?"})
		if want, wrong := strings.CutPrefix(c.want, "error: "); wrong && (err == nil ||
			!strings.Contains(err.Error(), want)) || !wrong && (err != nil || got != want) {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}
