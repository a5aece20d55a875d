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
[[nodiscard]] PrivateStore::Settings tree_file(const TextFile::Settings &text,
                                               const RECNOINFO *info) {
  PrivateStore::Settings file;
  file.flags = O_RDWR;
  file.is_sound = &Items<PrivateStore>::is_sound;
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

// REQUIRES: the key has a number, as in 1.85 whatever its size says.
[[nodiscard]] std::uint64_t number_of(const DBT *key) {
  if (key == nullptr || key->data == nullptr) throw Failure{EINVAL};
  recno_t number = 0;
  std::memcpy(&number, key->data, sizeof number);
  return number;
}

}  // namespace

RecnoHandle::RecnoHandle(const TextFile::Settings &text, const RECNOINFO *info)
    : Handle(DB_RECNO), text_(checked(text, info)), store_(tree_file(text, info)), tree_(&store_) {
  std::byte own[PrivateStore::kOwnBytes] = {std::byte{DB_RECNO}};
  if (store_.is_new()) {
    store_.set_own(own);
    tree_.make();
  } else if (store_.own()[0] != own[0]) {
    refuse(EINVAL);
  }
  if (text_.file() < 0) return;
  std::uint64_t count = 0;
  text_.read([&](Bytes record) {
    store_.begin_operation(false);
    tree_.insert(count++, record);
  });
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
  number_ = static_cast<recno_t>(number);
  key->data = &number_;
  key->size = sizeof number_;
}

int RecnoHandle::get(const DBT *key, DBT *data, unsigned flags) {
  if (flags != 0 || data == nullptr) refuse(EINVAL);
  const std::uint64_t number = number_of(key);
  if (number == 0) refuse(EINVAL);
  if (number > tree_.count()) return RET_SPECIAL;
  tree_.get(number - 1, &data_);
  deliver(data_, data);
  return RET_SUCCESS;
}

int RecnoHandle::put(DBT *key, const DBT *data, unsigned flags) {
  const std::uint64_t count = tree_.count();
  std::uint64_t number = 0;
  const bool is_insert = flags == R_IAFTER || flags == R_IBEFORE;
  switch (flags) {
    case R_CURSOR:
      if (!has_cursor_) refuse(EINVAL);
      number = cursor_;
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
  for (std::uint64_t at = count; at + 1 < number; ++at) {
    store_.begin_operation(false);
    tree_.insert(at, empty);
  }
  if (is_insert || number > count) {
    tree_.insert(number - 1, record);
  } else {
    tree_.replace(number - 1, record);
  }
  if (flags == R_SETCURSOR) {
    cursor_ = number;
    has_cursor_ = true;
  }
  if (key != nullptr) deliver_number(number, key);
  return RET_SUCCESS;
}

int RecnoHandle::del(const DBT *key, unsigned flags) {
  if (flags != 0 && flags != R_CURSOR) refuse(EINVAL);
  if (flags == R_CURSOR && !has_cursor_) refuse(EINVAL);
  const std::uint64_t number = flags == R_CURSOR ? cursor_ : number_of(key);
  if (number == 0 && flags == 0) refuse(EINVAL);
  expect_writable();
  if (number == 0 || number > tree_.count()) return RET_SPECIAL;
  is_changed_ = true;
  tree_.erase(number - 1);
  // The next one is what followed it.
  if (flags == R_CURSOR) --cursor_;
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
      number = has_cursor_ ? cursor_ + 1 : 1;
      break;
    case R_PREV:
      number = has_cursor_ ? cursor_ - std::min<std::uint64_t>(cursor_, 1) : count;
      break;
    default:
      refuse(EINVAL);
  }
  if (number == 0 || number > count) return RET_SPECIAL;
  tree_.get(number - 1, &data_);
  cursor_ = number;
  has_cursor_ = true;
  deliver_number(number, key);
  deliver(data_, data);
  return RET_SUCCESS;
}

int RecnoHandle::sync(unsigned flags) {
  if (flags != 0 && flags != R_RECNOSYNC) refuse(EINVAL);
  if (flags == 0 && is_changed_ && text_.file() >= 0) {
    TMH_ASSERT(text_.is_writable());
    TextFile::Writer writer(text_);
    const std::uint64_t count = tree_.count();
    for (std::uint64_t i = 0; i < count; ++i) {
      store_.begin_operation(false);
      tree_.get(i, &data_);
      writer.put(data_);
    }
    writer.finish();
    is_changed_ = false;
  }
  store_.sync();
  return RET_SUCCESS;
}

}  // namespace tmh::db
