// How a connection moves its bytes, and when it gives up waiting for its client.

#include <algorithm>
#include <utility>

#include "http/connection.hpp"

namespace oncebox::server {

namespace {

/// While a body comes in that is larger than the smallest buffer.
constexpr std::size_t kBodyBufferBytes = 16 << 10;
/// While a large body comes in, or one that is streamed.
constexpr std::size_t kLargeBufferBytes = 64 << 10;
constexpr std::size_t kLargeBodyBytes = 256 << 10;
/// How much a client must take within the write timeout.
constexpr std::size_t kWriteStepBytes = 64 << 10;
constexpr std::chrono::seconds kLingerTime{2};

/// What is not counted beside the place of a connection.
constexpr std::size_t kSmallOutputBytes = 8 << 10;
/// Who holds less need not go when memory is short.
constexpr std::size_t kWorthEndingBytes = 32 << 10;
/// And who has sent or taken a good deal within this time.
constexpr std::chrono::seconds kPatience{1};

}  // namespace

void Connection::on_tick() noexcept {
  const SteadyTime now = this->now();
  if (now >= write_deadline_) return close();
  if (now >= read_deadline_) return guard(&Connection::on_too_slow);
  if (is_stalled(now)) loop_->note_stalled(*this, went_on_at());
  // Without memory for a message to the loop, nobody has told it of the stream's pieces.
  if (state_ == State::streaming) guard(&Connection::continue_stream);
}

void Connection::on_too_slow() {
  const bool is_in_request = state_ == State::body || state_ == State::handling ||
                             (state_ == State::head && !input_.empty());
  if (!is_in_request) return close();
  refuse_bytes({.status = 408, .code = "timeout", .detail = "the request did not come in whole"});
  flush();
}

/// Sets the deadline of what the client has to send, unless it runs already.
void Connection::wait_for(Awaited awaited) {
  if (awaited_ == awaited) return;
  awaited_ = awaited;
  if (awaited == Awaited::nothing) {
    read_deadline_ = SteadyTime::max();
    return;
  }
  awaited_since_ = now();
  const HttpLimits& limits = service_.limits();
  switch (awaited) {
    case Awaited::nothing:
      break;
    case Awaited::request:
      read_deadline_ = awaited_since_ + limits.idle_timeout;
      break;
    case Awaited::rest_of_request:
      read_deadline_ = awaited_since_ + limits.request_timeout;
      break;
    case Awaited::piece:
      read_deadline_ = std::min(awaited_since_ + limits.request_timeout, stream_deadline_);
      break;
    case Awaited::goodbye:
      read_deadline_ = awaited_since_ + std::min<Duration>(kLingerTime, limits.request_timeout);
      break;
  }
}

Connection::Waits Connection::waits() const noexcept {
  if (is_writing_) return Waits::for_reader;
  if (waits_for_body()) return Waits::for_body;
  switch (state_) {
    case State::handshake:
    case State::lingering:
      return Waits::for_head;
    case State::head:
      return has_answered_ && input_.empty() ? Waits::for_request : Waits::for_head;
    case State::body:
    case State::handling:
    case State::streaming:
    case State::last_write:
    case State::closed:
      break;
  }
  return Waits::for_nothing;
}

bool Connection::waits_for_body() const noexcept {
  return state_ == State::body ||
         (state_ == State::handling && sink_ && sink_wants_more_ && !is_body_complete_);
}

void Connection::give_place() noexcept {
  service_.note_ended("places");
  close(503);
}

void Connection::note_progress() noexcept {
  progress_at_ = now();
  progress_bytes_ = 0;
}

/// Whether the client holds a lot of memory where that is short, and does not go on.
bool Connection::is_stalled(SteadyTime now) const noexcept {
  if (!is_writing_ && !waits_for_body()) return false;
  const MemoryHold& hold = is_writing_ ? sending_.hold : exchange_->hold;
  return hold.size() >= kWorthEndingBytes && now - went_on_at() >= kPatience && hold.is_short();
}

void Connection::give_memory() noexcept {
  if (!is_stalled(now())) return;
  service_.note_ended("memory");
  if (is_writing_) {
    close(503);
  } else {
    guard(&Connection::end_for_memory);
  }
}

void Connection::end_for_memory() {
  refuse_for_memory();
  flush();
}

/// The room that is wanted for what comes next.
std::size_t Connection::input_capacity() const noexcept {
  const std::size_t head = service_.limits().max_header_bytes + 8;
  const bool is_small = body_bytes_expected_ > 0 && body_bytes_expected_ <= InputBuffer::kSmall;
  if (state_ == State::head && input_.size() * 4 > InputBuffer::kSmall * 3) return head;
  if (state_ == State::body && !is_small) {
    return std::max(head,
                    body_bytes_expected_ > kLargeBodyBytes ? kLargeBufferBytes : kBodyBufferBytes);
  }
  if (state_ == State::handling && !is_body_complete_) return std::max(head, kLargeBufferBytes);
  return InputBuffer::kSmall;
}

void Connection::read_more() {
  if (is_reading_ || has_ended_) return;
  switch (state_) {
    case State::handling:
      if (!is_body_complete_ && !waits_for_body()) return;
      break;
    case State::handshake:
    case State::last_write:
    case State::closed:
      return;
    case State::head:
    case State::body:
    case State::streaming:
    case State::lingering:
      break;
  }
  std::size_t capacity = std::max(input_capacity(), input_.size());
  if (!place_.memory().resize(place_bytes_ + capacity - InputBuffer::kSmall)) {
    // A body can do with little at a time; a head must be there whole.
    if (state_ == State::head) return end_for_memory();
    capacity = InputBuffer::kSmall;
  }
  const auto room = input_.prepare(capacity);
  if (room.size == 0) return;
  is_reading_ = true;
  start_read(room.data, room.size);
}

void Connection::flush() {
  if (state_ == State::closed) return;
  if (!is_writing_ && !output_.empty()) {
    IoResult result = IoResult::ok;
    const std::size_t written = write_at_once(result);
    if (result != IoResult::ok) return close();
    if (written == output_.size()) {
      output_.clear();
    } else {
      std::swap(sending_, output_);
      sent_ = written;
      is_writing_ = true;
      count_output(sending_);
      if (!std::exchange(is_behind_, true)) give_time_to_take();
      note_taken(written);
      const std::string_view rest = sending_.rest(sent_);
      start_write(rest.data(), rest.size());
    }
  }
  if (state_ == State::last_write && !is_writing_ && output_.empty()) end_connection();
}

std::size_t Connection::write_at_once(IoResult& result) {
  std::size_t written = 0;
  while (written < output_.size() && result == IoResult::ok) {
    const std::string_view rest = output_.rest(written);
    const std::size_t taken = write_now(rest.data(), rest.size(), result);
    written += taken;
    if (taken < rest.size()) break;
  }
  return written;
}

/// A client that does not take all must go on, however many answers are written one after the
/// other.
void Connection::note_taken(std::size_t bytes) noexcept {
  taken_bytes_ += bytes;
  if (taken_bytes_ >= kWriteStepBytes) give_time_to_take();
}

void Connection::give_time_to_take() noexcept {
  taken_at_ = now();
  taken_bytes_ = 0;
  write_deadline_ = taken_at_ + service_.limits().write_timeout;
}

/// What the client does not take is counted. It is there already, so it is not refused.
void Connection::count_output(Outgoing& outgoing) noexcept {
  const std::size_t bytes = outgoing.text.capacity() + outgoing.body.capacity();
  if (bytes <= kSmallOutputBytes) return;
  if (!outgoing.hold.account()) {
    outgoing.hold = MemoryHold(place_.address(), MemoryPart::connections);
  }
  outgoing.hold.force(bytes);
}

void Connection::on_written(IoResult result, std::size_t bytes) noexcept {
  if (state_ == State::closed) return sending_.clear();
  if (result != IoResult::ok) return close();
  sent_ += bytes;
  note_taken(bytes);
  guard(&Connection::write_on);
}

void Connection::write_on() {
  if (sent_ < sending_.size()) {
    const std::string_view rest = sending_.rest(sent_);
    return start_write(rest.data(), rest.size());
  }
  sending_ = {};
  is_writing_ = false;
  if (state_ == State::streaming) take_stream_pieces();
  advance();
  if (is_writing_) return;
  is_behind_ = false;
  write_deadline_ = SteadyTime::max();
}

/// Everything is written. A client that still sends would lose the answer if the socket were closed
/// under it, so what it sends is read for a while.
void Connection::end_connection() {
  state_ = State::lingering;
  wait_for(Awaited::goodbye);
  const bool will_tell = start_shutdown();
  if (will_tell) return;
  if (!needs_lingering_ || has_ended_) return close();
  input_.clear();
  read_more();
}

void Connection::on_shutdown() noexcept { close(); }

void Connection::close(int status) noexcept {
  if (state_ == State::closed) return;
  state_ = State::closed;
  close_socket();
  loop_->remove(position_);
  output_.clear();
  if (const auto sink = std::exchange(sink_, nullptr)) sink->on_broken();
  if (exchange_) {
    record(status, {});
    const auto exchange = std::exchange(exchange_, nullptr);
    exchange->close_stream();
    exchange->tell_gone();
  }
  place_.release();
}

}  // namespace oncebox::server
