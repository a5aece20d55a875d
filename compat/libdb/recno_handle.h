// compat/libdb/recno_handle.h -- DB_RECNO: recno(3). Records by their number, of a text file or of
// none.
// Shape:     a counted tree in memory, or in the file `bfname`. The text is read when it is opened,
//            and written anew at sync and close, when a record has changed.
// Source:    recno(3) of 4.4BSD: the cursor is a number, which stays when records before it go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compat/libdb/counted_tree.h"
#include "compat/libdb/handle.h"
#include "compat/libdb/open_store.h"
#include "compat/libdb/text_file.h"

namespace tmh::db {

class RecnoHandle final : public Handle {
 public:
  // text: the user's file; its path is empty where there is none.
  RecnoHandle(const StoreOpener &opener, const TextFile::Settings &text, const RECNOINFO *info);

 private:
  [[nodiscard]] int get(const DBT *key, DBT *data, unsigned flags) override;
  [[nodiscard]] int put(DBT *key, const DBT *data, unsigned flags) override;
  [[nodiscard]] int del(const DBT *key, unsigned flags) override;
  [[nodiscard]] int seq(DBT *key, DBT *data, unsigned flags) override;
  [[nodiscard]] int sync(unsigned flags) override;
  [[nodiscard]] int file() const noexcept override { return text_.file(); }
  void keep_position() noexcept override { cursor_before_ = cursor_; }
  void reset_position() noexcept override { cursor_ = cursor_before_; }
  void write_text() override;

  void read_text();
  [[nodiscard]] int none();
  [[nodiscard]] Bytes padded(Bytes data);
  void expect_writable() const;
  void deliver_number(std::uint64_t number, DBT *key) noexcept;

  TextFile text_;
  CountedTree tree_;
  bool is_changed_ = false;
  struct Cursor {
    bool is_there = false;
    std::uint64_t number = 0;
  };
  Cursor cursor_, cursor_before_;
  std::vector<std::byte> padded_;
};

}  // namespace tmh::db
