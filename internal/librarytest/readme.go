package librarytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// CompileREADME compiles, unchanged, the complete programs in a README that import a certain package (imported). If
// there is no such program, the test fails. readme is the path of the README. The programs are compiled in the module
// whose test calls CompileREADME.
func CompileREADME(t *testing.T, readme, imported string) {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	programs := regexp.MustCompile("(?s)```go\n(package main\n.*?)```")
	for _, program := range programs.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(program[1], `"`+imported+`"`) {
			continue
		}
		found = true
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(program[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if said, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput(); err != nil {
			t.Errorf("a program of %s does not compile: %v\n%s", readme, err, said)
		}
		if said, err := exec.CommandContext(t.Context(), "gofmt", "-l", file).CombinedOutput(); err != nil || len(said) > 0 {
			t.Errorf("a program of %s is not formatted: %v\n%s", readme, err, said)
		}
	}
	if !found {
		t.Errorf("%s has no program that imports %s", readme, imported)
	}
}
