#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "http/exchange.hpp"
#include "http/memory_budget.hpp"
#include "http/router.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::server {

class Connection;
class HttpExchange;

/// Pieces of an answer on their way from any thread to the connection. Bounded: a client that does
/// not read is cut off rather than waited for.
class HttpResponseStream final : public ResponseStream {
 public:
  static constexpr std::size_t kMaxBacklogBytes = 256 << 10;

  explicit HttpResponseStream(std::shared_ptr<HttpExchange> exchange)
      : exchange_(std::move(exchange)) {}
  /// A stream that nobody ends ends with its last owner.
  ~HttpResponseStream() override;

  bool write(std::string piece) noexcept override;
  void end() noexcept override;

 private:
  const std::shared_ptr<HttpExchange> exchange_;
};

/// A request on its way through the service, and the way of its answer back to the connection.
///
/// The connection and the exchange own each other until the answer is written or the connection is
/// closed. A handler owns a share (`share`), and the last share to go without an answer makes one.
class HttpExchange final : public Exchange, public std::enable_shared_from_this<HttpExchange> {
 public:
  HttpExchange(std::shared_ptr<Connection> connection, Request request, SteadyTime now);
  ~HttpExchange() override;

  void send(Response response) noexcept override;
  [[nodiscard]] std::shared_ptr<ResponseStream> send_stream(Response head) override;
  void read_body(std::shared_ptr<BodySink> sink) override;
  void on_gone(std::function<void()> callback) override;
  [[nodiscard]] Standing standing() const override;
  [[nodiscard]] MemoryHold new_hold() const noexcept override;

  /// What a handler gets.
  [[nodiscard]] ExchangePtr share();

  // The connection's side, in its loop's thread.

  [[nodiscard]] Connection& connection() noexcept { return *connection_; }
  [[nodiscard]] Request& incoming() noexcept { return request_; }
  [[nodiscard]] Response& response() noexcept { return response_; }
  [[nodiscard]] bool is_stream() const noexcept { return is_stream_; }
  [[nodiscard]] std::shared_ptr<BodySink> take_sink();
  /// Has the connection give the sink more. Safe from any thread.
  void request_more();
  /// Calls the callback of `on_gone`, if there is one.
  void tell_gone() noexcept;
  /// Drops the callback of `on_gone`.
  void forget() noexcept;

  struct StreamPieces {
    std::string bytes;
    bool has_ended = false;
  };
  [[nodiscard]] StreamPieces take_pieces();
  /// The client takes less than is written, and the stream is closed.
  [[nodiscard]] bool has_overflown();
  /// From now on `write` answers false.
  void close_stream() noexcept;

  /// Whether anybody may ask so: the route needs no token, or there is none.
  [[nodiscard]] bool is_strangers() const noexcept {
    return route == nullptr || route->scope == Scope::open;
  }

  const Route* route = nullptr;
  std::shared_ptr<MemoryAccount> account;  ///< who holds what the request takes
  const SteadyTime started;
  std::size_t bytes_in = 0;
  std::size_t bytes_out = 0;
  MemoryHold hold;         ///< what the request takes, as long as somebody has it
  MemoryHold answer_hold;  ///< what a large answer takes, until the connection has it

 private:
  friend class HttpResponseStream;

  [[nodiscard]] bool claim_answer() noexcept { return !is_answered_.exchange(true); }
  void hold_answer();
  void deliver();
  void abandon() noexcept;
  bool write_piece(std::string piece) noexcept;
  [[nodiscard]] bool keep_piece(std::string piece) noexcept ONCEBOX_REQUIRES(mutex_);
  void post_pieces() noexcept ONCEBOX_REQUIRES(mutex_);
  void end_stream() noexcept;

  const std::shared_ptr<Connection> connection_;
  std::atomic<bool> is_answered_ = false;
  Response response_;  ///< written once, by the answering thread, before `deliver`
  bool is_stream_ = false;

  detail::Mutex mutex_;
  std::function<void()> gone_callback_ ONCEBOX_GUARDED_BY(mutex_);
  std::shared_ptr<BodySink> sink_ ONCEBOX_GUARDED_BY(mutex_);
  std::string pieces_ ONCEBOX_GUARDED_BY(mutex_);
  MemoryHold pieces_hold_ ONCEBOX_GUARDED_BY(mutex_);
  bool is_gone_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool is_stream_closed_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool has_stream_ended_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool has_overflown_ ONCEBOX_GUARDED_BY(mutex_) = false;
  /// The connection will look for pieces.
  bool is_posted_ ONCEBOX_GUARDED_BY(mutex_) = false;
};

}  // namespace oncebox::server
