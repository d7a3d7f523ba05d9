// How Go's regexp, which the policies inside the API server use (RE2's syntax), reads patterns for names of resources: written
// to patterns.tsv, after a line with the names line by line the pattern as JSON, whether it is a pattern at all, and which of the names it is
// found in: the first is the lowest bit.
//
//	cd crds/re2 && go run main.go > patterns.tsv
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Names that a resource can have, and that tell patterns apart.
var names = []string{
	"nvidia.com/gpu", "nvidia.com/GPU", "NVIDIA.com/gpu.shared", "amd.com/gpu", "nvidia.com/mig-1g.5gb", "gpu", "cpu", "a", "aa", "aaa",
	"b", "ab", "ba", "a.b", "a-b", "a_b", "A", "0", "a0", "10", "aaaa", "d", "w", "x", "n", "u0041", "E", "Q", "p", "L", "start", "s", "U",
}

// What stands for one thing.
var atoms = []string{
	"a", ".", "^", "$", `\.`, `\-`, `\_`, `\/`, `\d`, `\D`, `\s`, `\S`, `\w`, `\W`, `\b`, `\B`, `\A`, `\z`, `\Z`, `\G`, `\K`, `\R`, `\X`, `\C`,
	`\h`, `\H`, `\N`, `\V`, `\<`, `\>`, `\a`, `\f`, `\n`, `\r`, `\t`, `\v`, `\e`, `\0`, `\1`, `\7`, `\8`, `\01`, `\141`, `\x61`, `\x{61}`, `\x6`, `\x`,
	`\x{}`, `\x{110000}`, `\u0061`, `\u{61}`, `\U00000061`, `\pL`, `\p{L}`, `\p{Latin}`, `\p{Greek}`, `\p{alpha}`, `\p{Script=Latin}`, `\PL`, `\p{^L}`,
	`\Qa.b\E`, `\Q`, `\E`, `\b{start}`, `\b{end}`, `\b{start-half}`, `\B{2}`, `\&`, `\~`, `\#`, `\ `, `\"`, `\@`, `\%`, "\\", "é", `\é`,
	"[a]", "[^a]", "[]a]", "[^]a]", "[]", "[^]", "[", "]", "[a", "[a-z]", "[z-a]", "[a-]", "[-a]", "[a-a]", "[--a]", "[a--b]", "[a-z--b]", "[a&&b]",
	"[a~~b]", "[&&]", "[a-z&&[^b]]", "[a[b]]", "[[a]]", "[[:alpha:]]", "[[:^alpha:]]", "[^[:alpha:]]", "[[:foo:]]", "[[:alpha]]", "[:alpha:]", "[[.a.]]",
	"[[=a=]]", "[[:word:]]", "[[:ascii:]]", `[\d]`, `[^\d-]`, `[\b]`, `[\B]`, `[\A]`, `[\w-]`, `[a-\d]`, `[\d-a]`, `[\]]`, `[\[]`, `[\x61]`, `[\x{61}]`, `[\141]`,
	`[\pL]`, `[\p{L}]`, `[\Qa\E]`, `[\-a]`, `[\&&]`, `[\e]`, `[\é]`, `[\<]`, "[(]", "[{]", "[a{2}]", "[a*]", "[^^]", "[$]", "[.]", "[/]", "[ ]", "[#]", "[a-b-c]",
	"[a-[b]]", "[!a]", "[0-9A-Fa-f]",
	"()", "(a)", "(a|b)", "(|a)", "(a|)", "(a||b)", "|", "a|", "|a", "(", ")", "(a", "a)", "(?:a)", "(?:)", "(?)", "(?", "(?a", "(?:a", "(?P<n>a)", "(?P<n>a)(?P<n>b)",
	"(?<n>a)", "(?<n>a)(?<n>b)", "(?P<>a)", "(?P<1>a)", "(?P<a.b>a)", "(?P<a[0]>a)", "(?P<é>a)", "(?P<n", "(?P<n>", "(?P=n)", "(?P>n)", "(?'n'a)", "(?=a)", "(?!a)",
	"(?<=a)", "(?<!a)", "(?>a)", "(?#a)", "(?|a)", "(?R)", "(?R)a", "(?i)A", "(?i:A)", "(?-i)A", "(?i-s:A)", "(?s).", "(?m)^a", "(?U)a+", "(?x)a b", "(?x: a )", "(?u)a",
	"(?-u)a", "(?-u:a)", "(?ii)A", "(?i-i)A", "(?-)a", "(?-:a)", "(?i-)a", "(?i-:a)", "(?--i)a", "(?i--s)a", "(?i-s-m)a", "(?imsU)A", "(?imsU-imsU:A)", "(?k)a", "(?^)a", "(?y)a", "(?n)a", "(?J)a",
	"{", "}", "{}", "{2}", "{,2}", "{2,}", "a{", "a{}", "a{,}", "a{,2}", "a{2", "a{2,", "a{a}", "a{ 2 }", "a{2, 3}", "a{-1}", "a{+1}", "a{00002}", "a{1_0}", "a{1,2,3}", "a{2}b", "x{1,1",
	" ", "#", "a b", "-", "/", "~", "&", "&&", "\t", "\n",
}

// What follows it.
var suffixes = []string{
	"", "*", "+", "?", "*?", "+?", "??", "**", "*+", "++", "?+", "+*", "???", "*??", "{2}", "{2}?", "{2}??", "{2}+", "{2}*", "{2}{3}", "{0}", "{0,0}", "{0,}", "{1,2}", "{2,1}",
	"{2,}", "{2,}?", "{,2}", "{ 2}", "{1000}", "{1001}", "{0,1000}", "{1,1001}", "{1000,}", "{1001,}", "{99999999999999999999}", "$", "|b",
}

// Those that are found in the wild, and those about what repeats.
var whole = []string{
	"", "nvidia.com/gpu", "^nvidia\\.com/gpu$", `^nvidia\.com/(gpu|mig-.+)$`, "amd.com/.*", "(?i)GPU", ".*gpu.*", `.*\.com/(gpu|GPU)`, `^(nvidia|amd)\.com/gpu(\.shared)?$`, "gpu$",
	"(a{100}){10}", "(a{100}){11}", "(a{100}){100}", "((a{10}){10}){10}", "((a{10}){10}){11}", "(a{2,}){500}", "(a{2,}){501}", "a{500}b{500}", "a{501}b{501}", "a{600}|b{600}",
	"(a{0}){1000}", "((a{0}){1000}){1000}", "(a{0,0}b{2}){501}", "(a*){1000}", "(a+){1000}", "(a?){1000}", "((a*)*)*", "((((((a+)+)+)+)+)+)+", "(a{1,})*", "(?:a{2})*", "(a{2})*{3}", "(a|b{1000})",
	"a{2}b{3}", "(a{3}b){3}", "(?:a{2}){3}", "[a-z]{63}", "[^/]{1,63}/.{1,63}", "(?i:a){2}", "(?i)*a", "(?i)+", "(?i)?", "(?i){2}", "a|*", "(*a)", "(+)", "^*", "$*", `\b*`, `\b+`, `\b?`, `\b{2}`, "(^)*", "(?:)*", "()*", "(|)*", "|*", "*",
	"+", "?", "*a", "a|+b", "(?P<vendor>[a-z.]+)/gpu", strings.Repeat("(", 900) + strings.Repeat(")", 900), strings.Repeat("(", 1100) + "a" + strings.Repeat(")", 1100), strings.Repeat("a?", 500),
	strings.Repeat("(?:", 240) + "a" + strings.Repeat(")", 240), strings.Repeat("(?:", 260) + "a" + strings.Repeat(")", 260), strings.Repeat("[a-z]{100}", 20),
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	line := func(values ...any) {
		for place, value := range values {
			text, err := json.Marshal(value)
			if err != nil {
				panic(err)
			}
			if place > 0 {
				fmt.Fprint(out, "\t")
			}
			fmt.Fprint(out, string(text))
		}
		fmt.Fprintln(out)
	}
	line(names)
	patterns := whole
	for place, atom := range atoms {
		for _, suffix := range suffixes {
			// What repeats is asked of a part of them.
			if place%16 == 0 || suffix == "" || suffix == "*" || suffix == "{2}" || suffix == "??" {
				patterns = append(patterns, atom+suffix)
			}
		}
	}
	for _, pattern := range patterns {
		read, err := regexp.Compile(pattern)
		var found uint64
		for place, name := range names {
			if err == nil && read.MatchString(name) {
				found |= 1 << place
			}
		}
		line(pattern, err == nil, found)
	}
}
