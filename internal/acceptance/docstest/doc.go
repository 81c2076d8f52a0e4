// Package docstest reads the pages and examples of the repository, and runs their programs. Names come in; texts and
// what programs print go out. It looks for the repository two directories above the test.
// Call ReadPage or ExampleFiles to read, and Build, Run or RunIn for a program.
package docstest
