// compat/libdb/server/requests.cpp -- hello, an operation, a batch of them, a script.
#include "compat/libdb/server/requests.h"

#include <tp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "platform/assert.h"

namespace tmh::db::server {

using tp::wire::Kind;
using tp::wire::Op;
using tp::wire::Reader;
using tp::wire::Result;
using tp::wire::Writer;

namespace {

[[nodiscard]] Result failed(int error) noexcept {
  Result made;
  made.result = RET_ERROR;
  made.error = error;
  return made;
}

// A batch is one transaction: it neither begins nor ends others, nor opens and closes files.
[[nodiscard]] bool is_of_batch(std::uint16_t kind) noexcept {
  switch (kind) {
    case TP_SERVER_GET:
    case TP_SERVER_PUT:
    case TP_SERVER_DEL:
    case TP_SERVER_SEQ:
    case TP_SERVER_ADD:
    case TP_SERVER_LOCK:
    case TP_SERVER_UNLOCK:
    case TP_SERVER_TRADE:
    case TP_SERVER_LOG:
    case TP_SERVER_BUF_GET:
    case TP_SERVER_BUF_PUT:
      return true;
    default:
      return false;
  }
}

// Of a result without bytes, and of a message's head.
constexpr std::size_t kRoom = 64;
static_assert(kRoom > tp::wire::kHeadBytes + tp::wire::kOpBytesMin);

// False: a message does not have room for what is delivered.
bool put_bounded(std::string *reply, const Result &result) {
  const std::size_t bytes =
      (result.key ? result.key->size() : 0) + (result.data ? result.data->size() : 0);
  Writer out(reply);
  const bool fits = reply->size() + bytes + 2 * kRoom <= TP_SERVER_MESSAGE_MAX;
  put(&out, fits ? result : failed(EMSGSIZE));
  return fits;
}

}  // namespace

// What it has not ended is undone; the session's last one closes the databases.
Requests::~Requests() {
  if (operations_ != nullptr && operations_->roll_back()) Counters::add(shared_.counters.deaths);
  script_.reset();
}

bool Requests::answer(const tp::wire::Head &head, std::string_view payload, std::string *reply) {
  TMH_ASSERT(reply != nullptr && head.bytes == payload.size());
  Counters::add(shared_.counters.requests);
  const std::size_t before = reply->size();
  std::string made;
  const std::size_t at = tp::wire::begin_message(
      &made, head.number, static_cast<std::uint16_t>(head.kind | tp::wire::kReply));
  Writer out(&made);
  bool is_right = false;
  if (head.zero != 0) {
    is_right = false;
  } else if (head.kind == static_cast<std::uint16_t>(Kind::kHello)) {
    is_right = operations_ == nullptr && hello(payload, &out);
  } else if (operations_ == nullptr) {
    is_right = false;
  } else if (head.kind == static_cast<std::uint16_t>(Kind::kOp)) {
    is_right = op(payload, &made);
  } else if (head.kind == static_cast<std::uint16_t>(Kind::kBatch)) {
    is_right = batch(payload, &made);
  } else if (head.kind == static_cast<std::uint16_t>(Kind::kScript)) {
    is_right = script(payload, &made);
  }
  if (!is_right || !tp::wire::end_message(&made, at)) {
    reply->resize(before);
    Counters::add(shared_.counters.malformed);
    return false;
  }
  reply->append(made);
  return true;
}

bool Requests::hello(std::string_view payload, Writer *out) {
  TMH_ASSERT(operations_ == nullptr);
  Reader in(payload);
  const tp::wire::Hello hello = tp::wire::take_hello(&in);
  if (!in.is_right() || hello.magic != tp::wire::kMagic) return false;
  tp::wire::Welcome welcome;
  if (hello.version != tp::wire::kVersion) {
    welcome.error = EPROTO;
  } else {
    std::shared_ptr<Session> session =
        shared_.sessions.of(uid_, hello.session[0], hello.session[1]);
    welcome.life = session->life();
    welcome.features = shared_.scripts.is_there() ? tp::wire::kHasScripts : 0;
    operations_ =
        std::make_unique<Operations>(&shared_.counters, shared_.limits, std::move(session));
  }
  put(out, welcome);
  return true;
}

bool Requests::op(std::string_view payload, std::string *reply) {
  TMH_ASSERT(operations_ != nullptr);
  Reader in(payload);
  const Op op = tp::wire::take_op(&in);
  if (!in.is_at_end()) return false;
  (void)put_bounded(reply, operations_->run(op));
  return true;
}

Result Requests::begin_batch(bool wants_transaction) {
  if (!wants_transaction) return {};
  if (has_transaction()) return failed(EBUSY);
  Op begin;
  begin.kind = TP_SERVER_BEGIN;
  return operations_->run(begin).result == TP_OK ? Result() : failed(EINVAL);
}

Result Requests::run_in_batch(const Op &op, bool wants_transaction) {
  return wants_transaction && !is_of_batch(op.kind) ? failed(EINVAL) : operations_->run(op);
}

bool Requests::batch(std::string_view payload, std::string *reply) {
  TMH_ASSERT(operations_ != nullptr);
  Reader in(payload);
  const auto flags = in.number<std::uint32_t>(), count = in.number<std::uint32_t>();
  constexpr std::uint32_t kFlags = 0u + TP_SERVER_NO_TRANSACTION + TP_SERVER_GO_ON;
  if ((flags & ~kFlags) != 0 || count > TP_SERVER_OPS_MAX ||
      count > in.left() / tp::wire::kOpBytesMin)
    return false;
  std::vector<Op> ops(count);
  for (Op &op : ops) op = tp::wire::take_op(&in);
  if (!in.is_at_end()) return false;
  const bool wants_transaction = (flags & TP_SERVER_NO_TRANSACTION) == 0;
  const bool goes_on = (flags & TP_SERVER_GO_ON) != 0;

  Result last = begin_batch(wants_transaction);
  const bool has_begun = wants_transaction && last.result == TP_OK;
  std::string results;
  std::uint32_t done = 0;
  if (last.result == TP_OK)
    for (const Op &op : ops) {
      last = run_in_batch(op, wants_transaction);
      if (!put_bounded(&results, last)) last = failed(EMSGSIZE);
      ++done;
      if (last.result != 0 && !(goes_on && last.result == RET_SPECIAL)) break;
      last = {};
    }
  if (has_begun && last.result == 0) {
    Op commit;
    commit.kind = TP_SERVER_COMMIT;
    last = operations_->run(commit);
    if (last.result != TP_OK) last = failed(EIO);
  }
  if (has_begun && last.result != 0) (void)operations_->roll_back();
  TMH_ASSERT(done <= count && !(has_begun && has_transaction()));
  Writer out(reply);
  out.number(last.result);
  out.number(last.error);
  out.number(done);
  reply->append(results);
  return true;
}

bool Requests::script(std::string_view payload, std::string *reply) {
  Reader in(payload);
  const auto text = in.bytes();
  if (!text || !in.is_at_end()) return false;
  Result made;
  std::string result;
  if (!shared_.scripts.is_there()) {
    made = failed(ENOTSUP);
  } else {
    if (script_ == nullptr) script_ = std::make_unique<Script>(shared_.scripts);
    made.result = script_->run(*text, shared_.limits.script_ms, &result);
    made.data = result;
  }
  operations_->note_end();
  made.number = has_transaction() ? 1 : 0;
  (void)put_bounded(reply, made);
  return true;
}

}  // namespace tmh::db::server
