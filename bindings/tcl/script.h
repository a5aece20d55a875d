// bindings/tcl/script.h -- scripts of a server's clients, for compat/libdb/server/scripts.h, which
// loads this library.
// Shape:     a client's interpreter is a safe one with the package's commands, in the client's
//            thread. Tcl itself is loaded with the first.
// Contexts:  an interpreter: one thread.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Null: there is no Tcl.
void *tp_tcl_make(void);
// 0, or 1: the result is its error's text. It lies in the interpreter until its next script. ms:
// the longest time that it may take.
int tp_tcl_run(void *interpreter, const char *script, std::size_t bytes, std::uint64_t ms,
               const char **result, std::size_t *result_bytes);
// Its databases are closed.
void tp_tcl_end(void *interpreter);
}
