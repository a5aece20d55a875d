// compat/libdb/private_store.h -- pages of one file, or of none, that this handle alone has.
// Shape:     file_format.h.
// Errors:    Failure: what read(2) and write(2) say; EINVAL: a file that is none of ours.
// Contexts:  one thread.
#pragma once

#include <cstdint>

#include "compat/libdb/store.h"
#include "platform/assert.h"

namespace tmh::db {

class PrivateStore final : public Store {
 public:
  explicit PrivateStore(const StoreSettings &settings);
  ~PrivateStore() override;

  [[nodiscard]] int file() const noexcept override { return file_; }
  int run(bool is_in_callback, Operation<int> operation, Operation<void> reset) override;
  void sync(Operation<void> write_text) override;

 private:
  void open_file(const StoreSettings &settings);
  void begin_file(std::uint32_t page_bytes);
  void read_head();
  void write_head();
  void fetch(PageId page, Frame *frame) override;
  void write_back(PageId page, Frame *frame) override;

  int file_ = -1;
  std::uint64_t stamp_ = 0;  // the file's
  bool (*is_sound_)(const Page &page) = nullptr;
};

}  // namespace tmh::db
