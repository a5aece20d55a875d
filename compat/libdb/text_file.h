// compat/libdb/text_file.h -- a file of records one behind the other: of one length, or each with a
// byte at its end.
// Errors:    Failure: what open(2), read(2) and write(2) say.
// Contexts:  one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "compat/libdb/page.h"

namespace tmh::db {

class TextFile {
 public:
  struct Settings {
    std::string path;  // empty: none
    int flags = 0;     // of open(2)
    int mode = 0;
    std::size_t record_bytes = 0;  // 0: each has its own length
    std::byte end{'\n'};           // behind a record; or what a shorter one is filled with
  };

  explicit TextFile(const Settings &settings);
  ~TextFile();
  TextFile(const TextFile &) = delete;
  TextFile &operator=(const TextFile &) = delete;

  [[nodiscard]] int file() const noexcept { return file_; }  // -1: none
  [[nodiscard]] bool is_writable() const noexcept { return is_writable_; }
  [[nodiscard]] std::size_t record_bytes() const noexcept { return record_bytes_; }
  [[nodiscard]] std::byte end() const noexcept { return end_; }

  void read(const std::function<void(Bytes record)> &take) const;
  // All of it anew.
  class Writer {
   public:
    explicit Writer(const TextFile &file) noexcept : file_(file) {}
    void put(Bytes record);
    void finish();

   private:
    void flush();

    const TextFile &file_;
    std::vector<std::byte> buffer_;
    std::uint64_t written_ = 0;
  };

 private:
  int file_ = -1;
  bool is_writable_ = true;
  std::size_t record_bytes_;
  std::byte end_;
};

}  // namespace tmh::db
