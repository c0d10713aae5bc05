#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http/exchange.hpp"
#include "watched.hpp"

namespace oncebox::server {

/// An answer without an end, as a test reads it.
class TestStream final : public ResponseStream {
 public:
  bool write(std::string piece) noexcept override;
  void end() noexcept override;

  /// From now on the client takes nothing.
  void break_off();
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool ended() const;
  /// Waits until what came so far satisfies the condition.
  [[nodiscard]] bool wait(const std::function<bool(const std::string& text)>& holds) const;
  [[nodiscard]] bool wait_for_end() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::string text_;
  bool ended_ = false;
  bool broken_ = false;
};

/// A request without a socket.
class TestExchange final : public Exchange, public std::enable_shared_from_this<TestExchange> {
 public:
  explicit TestExchange(Request request) : Exchange(std::move(request)) {}

  void send(Response response) noexcept override;
  [[nodiscard]] std::shared_ptr<ResponseStream> send_stream(Response head) override;
  void read_body(std::shared_ptr<BodySink> sink) override;
  void on_gone(std::function<void()> callback) override;
  [[nodiscard]] Standing standing() const override;
  [[nodiscard]] MemoryHold new_hold() const noexcept override;

  /// From now on what handlers keep counts here.
  void set_address(std::shared_ptr<ClientAddress> address) { address_ = std::move(address); }

  /// The answer, when it comes; one with status 0 when it does not.
  [[nodiscard]] Response wait() const;
  [[nodiscard]] bool answered() const;
  [[nodiscard]] std::shared_ptr<TestStream> stream() const;

  /// The caller's token is no longer known from now on, or is known with other limits.
  void revoke_token();
  void change_token();

  /// The client closes its connection.
  void go_away();

  /// Sends a body that is streamed in pieces of this size, and its end; less when an answer comes.
  void send_body(std::string_view body, std::size_t piece_bytes);
  /// Sends one piece and waits until it was taken; false when an answer came instead.
  bool send_piece(std::string piece);
  void end_body();
  /// The client is gone in the middle of the body.
  void break_body();
  /// Lets go of whoever takes the body, and who may own this exchange.
  void forget_body();

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Response> response_;
  std::shared_ptr<TestStream> stream_;
  std::shared_ptr<BodySink> sink_;
  std::function<void()> on_gone_;
  bool gone_ = false;
  Standing standing_ = {};
  std::shared_ptr<ClientAddress> address_;
};

}  // namespace oncebox::server
