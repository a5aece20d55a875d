// compat/libdb/recno_handle.cpp -- numbers from 1, flags of recno(3), and the text.
#include "compat/libdb/recno_handle.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "compat/libdb/failure.h"
#include "compat/libdb/items.h"
#include "compat/libdb/open_numbers.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

constexpr unsigned long kFlags = R_FIXEDLEN | R_NOKEY | R_SNAPSHOT;

[[nodiscard]] TextFile::Settings checked(TextFile::Settings text, const RECNOINFO *info) {
  if (info == nullptr) return text;
  if ((info->flags & ~kFlags) != 0) throw Failure{EINVAL};
  if ((info->flags & R_FIXEDLEN) != 0) {
    if (info->reclen == 0 || info->reclen > MAX_REC_NUMBER) throw Failure{EINVAL};
    text.record_bytes = info->reclen;
  }
  text.end = static_cast<std::byte>(info->bval);
  return text;
}

// With a text the tree is only a copy.
[[nodiscard]] StoreSettings tree_file(const TextFile::Settings &text, const RECNOINFO *info) {
  (void)checked(text, info);
  StoreSettings file;
  file.flags = O_RDWR;
  file.is_sound = &Items::is_sound;
  file.has_numbers = true;
  if (info == nullptr) return file;
  file.page_bytes = checked_page_bytes(info->psize);
  check_order(info->lorder);
  file.cache_bytes = info->cachesize;
  if (info->bfname == nullptr) return file;
  file.path = info->bfname;
  if (file.path.empty()) throw Failure{ENOENT};
  file.flags = O_RDWR | O_CREAT | (text.path.empty() ? 0 : O_TRUNC);
  file.mode = 0600;
  return file;
}

// A shared store has opened it already.
[[nodiscard]] TextFile::Settings text_again(TextFile::Settings text, const Store &store) {
  if (store.is_shared()) text.flags &= ~(O_CREAT | O_EXCL | O_TRUNC);
  return text;
}

// REQUIRES: the key has a number, as in 1.85 whatever its size says.
[[nodiscard]] std::uint64_t number_of(const DBT *key) {
  if (key == nullptr || key->data == nullptr) throw Failure{EINVAL};
  recno_t number = 0;
  std::memcpy(&number, key->data, sizeof number);
  return number;
}

}  // namespace

RecnoHandle::RecnoHandle(const StoreOpener &opener, const TextFile::Settings &text,
                         const RECNOINFO *info)
    : Handle(DB_RECNO, opener(tree_file(text, info))),
      text_(checked(text_again(text, store()), info)),
      tree_(&store()) {
  std::byte own[Store::kOwnBytes] = {std::byte{DB_RECNO}};
  if (store().is_new()) {
    make_database([&] {
      store().set_own(own);
      tree_.make();
    });
    if (text_.file() >= 0) read_text();
  } else if (store().own()[0] != own[0]) {
    refuse(EINVAL);
  }
  store().opened();
}

void RecnoHandle::read_text() {
  constexpr std::size_t kAtOnce = 1000;
  std::uint64_t count = 0;
  std::vector<std::vector<std::byte>> records;
  const auto insert_all = [&] {
    run([&] {
      for (std::size_t i = 0; i < records.size(); ++i) tree_.insert(count + i, records[i]);
      return RET_SUCCESS;
    });
    count += records.size();
    records.clear();
  };
  text_.read([&](Bytes record) {
    records.emplace_back(record.begin(), record.end());
    if (records.size() == kAtOnce) insert_all();
  });
  insert_all();
}

void RecnoHandle::expect_writable() const {
  if (!text_.is_writable()) refuse(EPERM);
}

// Of the length that all have.
Bytes RecnoHandle::padded(Bytes data) {
  const std::size_t bytes = text_.record_bytes();
  if (bytes == 0 || data.size() == bytes) return data;
  if (data.size() > bytes) refuse(EINVAL);
  padded_.assign(data.begin(), data.end());
  padded_.resize(bytes, text_.end());
  return padded_;
}

void RecnoHandle::deliver_number(std::uint64_t number, DBT *key) noexcept {
  TMH_ASSERT(number != 0 && number <= MAX_REC_NUMBER);
  delivery().number = static_cast<recno_t>(number);
  key->data = &delivery().number;
  key->size = sizeof delivery().number;
}

// How many there are has been looked at.
int RecnoHandle::none() {
  store().guard().lock_all(Access::kLook);
  return RET_SPECIAL;
}

int RecnoHandle::get(const DBT *key, DBT *data, unsigned flags) {
  if (flags != 0 || data == nullptr) refuse(EINVAL);
  const std::uint64_t number = number_of(key);
  if (number == 0) refuse(EINVAL);
  if (number > tree_.count()) return none();
  tree_.get(number - 1, &delivery().data);
  deliver(delivery().data, data);
  return RET_SUCCESS;
}

int RecnoHandle::put(DBT *key, const DBT *data, unsigned flags) {
  const std::uint64_t count = tree_.count();
  std::uint64_t number = 0;
  const bool is_insert = flags == R_IAFTER || flags == R_IBEFORE;
  switch (flags) {
    case R_CURSOR:
      if (!cursor_.is_there) refuse(EINVAL);
      number = cursor_.number;
      break;
    case R_IAFTER:
      // Behind no record is before the first.
      number = number_of(key) + 1;
      break;
    case 0:
    case R_IBEFORE:
    case R_NOOVERWRITE:
    case R_SETCURSOR:
      number = number_of(key);
      break;
    default:
      refuse(EINVAL);
  }
  if (number == 0 || number > MAX_REC_NUMBER) refuse(EINVAL);
  expect_writable();
  if (flags == R_NOOVERWRITE && number <= count) return RET_SPECIAL;
  const Bytes record = padded(bytes_of(data));
  // What is skipped is there, and empty.
  const std::vector<std::byte> empty(text_.record_bytes(), text_.end());
  is_changed_ = true;
  for (std::uint64_t at = count; at + 1 < number; ++at) tree_.insert(at, empty);
  if (is_insert || number > count) {
    tree_.insert(number - 1, record);
  } else {
    tree_.replace(number - 1, record);
  }
  if (flags == R_SETCURSOR) {
    cursor_.number = number;
    cursor_.is_there = true;
  }
  if (key != nullptr) deliver_number(number, key);
  return RET_SUCCESS;
}

int RecnoHandle::del(const DBT *key, unsigned flags) {
  if (flags != 0 && flags != R_CURSOR) refuse(EINVAL);
  if (flags == R_CURSOR && !cursor_.is_there) refuse(EINVAL);
  const std::uint64_t number = flags == R_CURSOR ? cursor_.number : number_of(key);
  if (number == 0 && flags == 0) refuse(EINVAL);
  expect_writable();
  if (number == 0 || number > tree_.count()) return none();
  is_changed_ = true;
  tree_.erase(number - 1);
  // The next one is what followed it.
  if (flags == R_CURSOR) --cursor_.number;
  return RET_SUCCESS;
}

int RecnoHandle::seq(DBT *key, DBT *data, unsigned flags) {
  if (key == nullptr || data == nullptr) refuse(EINVAL);
  const std::uint64_t count = tree_.count();
  std::uint64_t number = 0;
  switch (flags) {
    case R_CURSOR:
      number = number_of(key);
      if (number == 0) refuse(EINVAL);
      break;
    case R_FIRST:
      number = 1;
      break;
    case R_LAST:
      number = count;
      break;
    case R_NEXT:
      number = cursor_.is_there ? cursor_.number + 1 : 1;
      break;
    case R_PREV:
      number =
          cursor_.is_there ? cursor_.number - std::min<std::uint64_t>(cursor_.number, 1) : count;
      break;
    default:
      refuse(EINVAL);
  }
  if (flags == R_LAST) store().guard().lock_all(Access::kLook);
  if (number == 0 || number > count || number > MAX_REC_NUMBER) return none();
  tree_.get(number - 1, &delivery().data);
  cursor_.number = number;
  cursor_.is_there = true;
  deliver_number(number, key);
  deliver(delivery().data, data);
  return RET_SUCCESS;
}

int RecnoHandle::sync(unsigned flags) {
  if (flags != 0 && flags != R_RECNOSYNC) refuse(EINVAL);
  // A shared text may have been changed by others.
  store().sync([&] {
    if (flags == 0 && (is_changed_ || store().is_shared())) write_text();
  });
  is_changed_ = false;
  return RET_SUCCESS;
}

void RecnoHandle::write_text() {
  if (text_.file() < 0) return;
  TMH_ASSERT(text_.is_writable());
  TextFile::Writer writer(text_);
  std::uint64_t count = 0;
  run([&] {
    count = tree_.count();
    return RET_SUCCESS;
  });
  std::vector<std::byte> record;
  for (std::uint64_t i = 0; i < count; ++i) {
    run([&] {
      tree_.get(i, &record);
      return RET_SUCCESS;
    });
    writer.put(record);
  }
  writer.finish();
}

}  // namespace tmh::db
