// compat/libdb/server/scripts.h -- scripts of Tcl, run by the library of tp's Tcl package, which is
// loaded when it is asked for.
// Contexts:  a Script: one thread. NOT async-signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tmh::db::server {

// The functions of bindings/tcl/script.h.
class ScriptLibrary {
 public:
  using Make = void *(*)();
  using Run = int (*)(void *interpreter, const char *script, std::size_t bytes, std::uint64_t ms,
                      const char **result, std::size_t *result_bytes);
  using End = void (*)(void *interpreter);

  // Empty: its functions are there; else why not.
  [[nodiscard]] std::string load(const char *path);
  [[nodiscard]] bool is_there() const noexcept { return make_ != nullptr; }

 private:
  friend class Script;
  Make make_ = nullptr;
  Run run_ = nullptr;
  End end_ = nullptr;
};

// A client's interpreter.
class Script {
 public:
  explicit Script(const ScriptLibrary &library) noexcept
      : library_(library), interpreter_(library.make_()) {}
  ~Script() {
    if (interpreter_ != nullptr) library_.end_(interpreter_);
  }
  Script(const Script &) = delete;
  Script &operator=(const Script &) = delete;

  // 0, or 1: *result is its error's text.
  [[nodiscard]] int run(std::string_view script, std::uint64_t ms, std::string *result);

 private:
  const ScriptLibrary library_;
  void *const interpreter_;
};

}  // namespace tmh::db::server
