#include "examples/itm/cache/client_faults.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "examples/itm/cache/client_protocol.h"
#include "examples/itm/cache/client_values.h"

namespace cache {

FaultInjector::FaultInjector(const ClientOptions &options, std::uint64_t faults,
                             SteadyClock::time_point begin, Figures &figures)
    : options_(&options),
      figures_(&figures),
      faults_(faults),
      begin_(begin),
      socket_(options.place) {}

bool FaultInjector::is_new() { return std::exchange(is_new_, false); }

SteadyClock::time_point FaultInjector::due() const {
  const double part = static_cast<double>(injected_) / static_cast<double>(faults_);
  return begin_ + std::chrono::duration_cast<SteadyClock::duration>(
                      std::chrono::duration<double>(options_->seconds * part));
}

int FaultInjector::wait_ms() const {
  if (state_ != State::kIdle || injected_ == faults_) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(due() - SteadyClock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void FaultInjector::send(const std::string &request) {
  std::size_t sent = 0;
  // So few bytes always fit into a new socket.
  if (socket_.send(request, &sent) != ClientSocket::Moved::kSome || sent != request.size())
    throw std::runtime_error("the server ends a connection before a fault");
}

void FaultInjector::inject_when_due(std::uint64_t key) {
  if (state_ != State::kIdle || injected_ == faults_ || SteadyClock::now() < due()) return;
  const std::string &kind = options_->fault_kinds[injected_ % options_->fault_kinds.size()];
  ++injected_;
  key_ = key_text(key);
  injected_at_ = SteadyClock::now();
  state_ = State::kDies;
  send("fault " + kind + " " + key_ + "\r\n");
}

void FaultInjector::go_on() {
  const ClientSocket::Moved moved = socket_.receive(in_);
  if (moved == ClientSocket::Moved::kEnded) {
    if (state_ == State::kDies) {
      ++figures_->faults;
      state_ = State::kRecovers;
    }
    // While it recovers: a fault in another connection ended this one's thread.
    in_.drop_front(in_.size());
    socket_ = ClientSocket(options_->place);
    is_new_ = true;
    std::string request;
    append_get(Protocol::kText, key_, &request);
    if (state_ == State::kRecovers) send(request);
    return;
  }
  if (state_ == State::kDies && !in_.empty())
    throw std::runtime_error("the server answers a fault with " + std::string(in_.view()));
  if (state_ != State::kRecovers) return;
  const Answer answer = parse_answer(Protocol::kText, false, in_.view());
  if (answer.kind == Answer::Kind::kNeedsMore) return;
  if (answer.kind != Answer::Kind::kHit && answer.kind != Answer::Kind::kMiss) {
    ++figures_->errors;
    figures_->note("after a fault, the server says: " + std::string(answer.value));
  }
  figures_->recovery_ns_max = std::max(figures_->recovery_ns_max, ns_since(injected_at_));
  in_.drop_front(in_.size());
  state_ = State::kIdle;
}

}  // namespace cache
