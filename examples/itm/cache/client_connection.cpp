#include "examples/itm/cache/client_connection.h"

#include <algorithm>
#include <utility>

#include "examples/itm/cache/client_protocol.h"
#include "examples/itm/cache/client_values.h"

namespace cache {

ClientConnection::ClientConnection(const ClientOptions &options, std::uint64_t number,
                                   Ledger &ledger, Figures &figures)
    : options_(&options),
      number_(number),
      ledger_(&ledger),
      figures_(&figures),
      socket_(options.place) {}

std::uint64_t ClientConnection::own_key_near(std::uint64_t key) const {
  const std::uint64_t own = key - key % options_->connections + number_;
  return own < options_->keys ? own : number_;
}

bool ClientConnection::is_new() { return std::exchange(is_new_, false); }

void ClientConnection::add_get(std::uint64_t key) {
  requests_.push_back({false, key, 0, ledger_->acknowledged(key)});
  append_get(options_->protocol, key_text(key), &out_);
}

void ClientConnection::add_set(std::uint64_t key, std::size_t value_bytes) {
  const std::uint64_t sequence = ledger_->send(key);
  requests_.push_back({true, key, sequence, 0});
  append_set_head(options_->protocol, key_text(key), value_bytes, &out_);
  if (options_->verifies)
    append_value(key, sequence, value_bytes, &out_);
  else
    out_.append(value_bytes, 'v');
  append_set_tail(options_->protocol, &out_);
}

void ClientConnection::verify(const Request &request, std::string_view value, bool is_hit) {
  const std::string key = key_text(request.key);
  if (!is_hit) {
    if (request.acknowledged == 0) return;
    ++figures_->lost;
    return figures_->note(key + " is gone, though set");
  }
  const std::optional<std::uint64_t> sequence = sequence_of(value, request.key);
  if (!sequence || *sequence > ledger_->sent(request.key)) {
    ++figures_->torn;
    figures_->note("the value of " + key + " is torn");
  } else if (*sequence < request.acknowledged) {
    ++figures_->outdated;
    figures_->note("the value of " + key + " is older than one that was acknowledged");
  }
}

void ClientConnection::take_answer(const Request &request, std::string_view value, bool is_hit) {
  ++figures_->operations;
  figures_->latencies.add(ns_since(began_));
  if (recovers_) {
    recovers_ = false;
    figures_->recovery_ns_max = std::max(figures_->recovery_ns_max, ns_since(ended_));
  }
  if (request.is_set) {
    ++figures_->stored;
    return ledger_->acknowledge(request.key, request.sequence);
  }
  ++(is_hit ? figures_->hits : figures_->misses);
  if (options_->verifies) verify(request, value, is_hit);
}

bool ClientConnection::take_answers() {
  while (answered_ < requests_.size()) {
    const Request &request = requests_[answered_];
    const Answer answer = parse_answer(options_->protocol, request.is_set, in_.view());
    if (answer.kind == Answer::Kind::kNeedsMore) return true;
    ++answered_;
    if (answer.kind == Answer::Kind::kError || answer.kind == Answer::Kind::kNonsense) {
      ++figures_->errors;
      figures_->note("the server says: " + std::string(answer.value));
      if (answer.kind == Answer::Kind::kNonsense) return false;
    } else {
      take_answer(request, answer.value, answer.kind == Answer::Kind::kHit);
    }
    in_.drop_front(answer.bytes);
  }
  return true;
}

void ClientConnection::start_anew() {
  ++figures_->disconnects;
  ended_ = SteadyClock::now();
  recovers_ = true;
  // The new socket first: the epoll knows files by their numbers.
  socket_ = ClientSocket(options_->place);
  is_new_ = true;
  in_.drop_front(in_.size());
  answered_ = requests_.size();
}

ClientConnection::State ClientConnection::go_on() {
  using Moved = ClientSocket::Moved;
  if (sent_ == 0) began_ = SteadyClock::now();
  Moved moved = Moved::kSome;
  const bool was_sent = !waits_to_send();
  while (waits_to_send() && moved == Moved::kSome) moved = socket_.send(out_, &sent_);
  // A server may wait until its answers are taken, before it takes more requests.
  if (was_sent || waits_to_send()) moved = socket_.receive(in_);
  // What came before the end of the connection counts.
  if (!take_answers() || moved == Moved::kEnded) start_anew();
  if (answered_ < requests_.size()) return State::kWaits;
  requests_.clear();
  answered_ = 0;
  out_.clear();
  sent_ = 0;
  return State::kDone;
}

}  // namespace cache
