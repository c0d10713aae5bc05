#include "test_exchange.hpp"

#include <algorithm>
#include <utility>

namespace oncebox::server {

MemoryHold TestExchange::new_hold() const noexcept {
  return address_ ? MemoryHold(address_, MemoryPart::callers) : MemoryHold();
}

Standing TestExchange::standing() const {
  const std::lock_guard lock(mutex_);
  return standing_;
}

void TestExchange::revoke_token() {
  const std::lock_guard lock(mutex_);
  standing_ = {.is_unchanged = false, .refusal = Response{.status = 401, .body = "{}"}};
}

void TestExchange::change_token() {
  const std::lock_guard lock(mutex_);
  standing_ = {.is_unchanged = false};
}

bool TestStream::write(std::string piece) noexcept {
  const std::lock_guard lock(mutex_);
  if (ended_ || broken_) return false;
  text_ += piece;
  changed_.notify_all();
  return true;
}

void TestStream::end() noexcept {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void TestStream::break_off() {
  const std::lock_guard lock(mutex_);
  broken_ = true;
}

std::string TestStream::text() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

bool TestStream::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool TestStream::wait(const std::function<bool(const std::string& text)>& holds) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return holds(text_); });
}

bool TestStream::wait_for_end() const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return ended_; });
}

void TestExchange::send(Response response) noexcept {
  std::function<void()> dropped;
  {
    const std::lock_guard lock(mutex_);
    if (response_ || stream_) return;
    response_ = std::move(response);
    dropped.swap(on_gone_);
  }
  changed_.notify_all();
}

std::shared_ptr<ResponseStream> TestExchange::send_stream(Response head) {
  const std::lock_guard lock(mutex_);
  response_ = std::move(head);
  stream_ = std::make_shared<TestStream>();
  changed_.notify_all();
  return stream_;
}

void TestExchange::read_body(std::shared_ptr<BodySink> sink) {
  const std::lock_guard lock(mutex_);
  sink_ = std::move(sink);
}

void TestExchange::forget_body() {
  std::shared_ptr<BodySink> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(sink_);
}

void TestExchange::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (response_) return;
    if (!gone_) {
      on_gone_ = std::move(callback);
      return;
    }
  }
  callback();
}

Response TestExchange::wait() const {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kPatience, [this] { return response_.has_value(); })) {
    return Response{.status = 0, .body = "no answer came"};
  }
  return *response_;
}

bool TestExchange::answered() const {
  const std::lock_guard lock(mutex_);
  return response_.has_value();
}

std::shared_ptr<TestStream> TestExchange::stream() const {
  const std::lock_guard lock(mutex_);
  return stream_;
}

void TestExchange::go_away() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    callback.swap(on_gone_);
  }
  if (callback) callback();
}

bool TestExchange::send_piece(std::string piece) {
  // Shared, because an answer may come instead of the call, and the call later.
  const auto taken = std::make_shared<bool>(false);
  sink_->on_data(std::move(piece), [weak = weak_from_this(), taken] {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard lock(self->mutex_);
    *taken = true;
    self->changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPatience, [&] { return *taken || response_.has_value(); });
  return !response_.has_value();
}

void TestExchange::end_body() { sink_->on_end(); }

void TestExchange::send_body(std::string_view body, std::size_t piece_bytes) {
  if (sink_ == nullptr) return;
  while (!body.empty()) {
    const std::string_view piece = body.substr(0, piece_bytes);
    body.remove_prefix(piece.size());
    if (!send_piece(std::string(piece))) return;
  }
  end_body();
}

void TestExchange::break_body() {
  const std::shared_ptr<BodySink> sink = std::exchange(sink_, nullptr);
  if (sink) sink->on_broken();
}

}  // namespace oncebox::server
