#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/event_loop.hpp"
#include "http/http_exchange.hpp"
#include "http/http_service.hpp"
#include "http/input_buffer.hpp"
#include "http/memory_budget.hpp"
#include "http/outgoing.hpp"
#include "http/request_parser.hpp"

namespace oncebox::server {

enum class IoResult { ok, end_of_file, failed };

/// HTTP/1.1 on one connection, whatever it is made of: takes requests out of what comes in, one
/// after the other, and writes their answers in the same order. It knows no sockets: a derived
/// class moves the bytes (`socket_connection.cpp`). Everything happens in the thread of its loop.
///
/// While an answer is pending one read stays under way, so that a client that goes away is noticed;
/// what comes in then is the next request, and waits in the buffer.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<EventLoop> loop, HttpService& service, std::string peer);
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Waits for requests, or, when its place is one of the refused, says so and goes. Has its place
  /// until it is closed.
  void start(ConnectionPlace place) noexcept;

  void on_answer(HttpExchange& exchange) noexcept;
  void on_stream_pieces(HttpExchange& exchange) noexcept;
  void on_body_wanted(HttpExchange& exchange) noexcept;
  void on_tick() noexcept;

  /// Goes as soon as no request is under way.
  void drain() noexcept;
  /// Goes at once.
  void cut() noexcept;
  [[nodiscard]] bool has_request() const noexcept;

  /// What it waits for its client for. Where places are few, those that come first here go first.
  enum class Waits { for_head, for_request, for_body, for_reader, for_nothing };
  [[nodiscard]] Waits waits() const noexcept;
  /// Since when it waits for that; for a reader, since it last took a good deal.
  [[nodiscard]] SteadyTime waits_since() const noexcept {
    return is_writing_ ? taken_at_ : awaited_since_;
  }
  /// Goes at once, so that another one has its place.
  void give_place() noexcept;
  /// Goes when its client holds a lot of memory, does not go on, and memory is still short.
  void give_memory() noexcept;

  [[nodiscard]] const ClientAddress* address() const noexcept { return place_.address().get(); }
  /// That it holds of the connections' part of the budget.
  [[nodiscard]] std::size_t place_bytes() const noexcept { return place_.memory().size(); }

  /// Whether its handler is being called right now, so that an answer needs no message to the loop.
  [[nodiscard]] bool is_calling(const HttpExchange& exchange) const noexcept {
    return loop_->is_here() && is_in_handler_ && exchange_.get() == &exchange;
  }
  [[nodiscard]] EventLoop& loop() noexcept { return *loop_; }
  [[nodiscard]] const RequestGate& gate() const noexcept { return service_.gate(); }
  /// Does not change once there is a request: safe from any thread then.
  [[nodiscard]] const std::optional<std::string>& certificate_name() const noexcept {
    return certificate_name_;
  }

 protected:
  // What the derived class tells.

  void on_handshake(IoResult result, std::optional<std::string> certificate_name) noexcept;
  void on_read(IoResult result, std::size_t bytes) noexcept;
  void on_written(IoResult result, std::size_t bytes) noexcept;
  void on_shutdown() noexcept;

 private:
  // What the derived class does. Each start ends in its `on_…` above, never within the call.

  virtual void start_handshake() = 0;
  virtual void start_read(char* data, std::size_t size) = 0;
  virtual void start_write(const char* data, std::size_t size) = 0;
  /// What can be written without waiting; 0 when nothing, or when it cannot tell.
  virtual std::size_t write_now(const char* data, std::size_t size, IoResult& result) = 0;
  /// Says to the other side that nothing more will come. False when that is all there is to do.
  virtual bool start_shutdown() = 0;
  virtual void close_socket() noexcept = 0;

  enum class State {
    handshake,
    head,        ///< waits for a request, or for the rest of its head
    body,        ///< reads a body whole
    handling,    ///< waits for the answer; a streamed body is read meanwhile
    streaming,   ///< an answer without an end
    last_write,  ///< writes what is left, then goes
    lingering,   ///< has said goodbye; reads what still comes, so that the answer is not lost
    closed,
  };
  enum class Flow { go_on, wait };
  /// What the client has to send before its deadline.
  enum class Awaited { nothing, request, rest_of_request, piece, goodbye };

  void guard(void (Connection::*step)()) noexcept;
  void advance();
  void answer_too_many();
  void on_end_of_input();
  void on_too_slow();
  void continue_body();
  Flow read_head();
  Flow read_body();
  [[nodiscard]] bool make_room_in_body();
  [[nodiscard]] std::shared_ptr<MemoryAccount> account_of(const HttpExchange& exchange);
  [[nodiscard]] bool hold_request(std::size_t bytes);
  Flow handle();
  void accept(RequestHead head);
  void receive_body(std::optional<std::uint64_t> content_length);
  void answer(Response response);
  void call_handler();
  void pump_sink();
  void write_answer();
  void take_stream_pieces();
  void continue_stream();
  void finish_request();
  void refuse_bytes(const BadRequest& why);
  void append_head(const Response& response, ResponseFraming framing);
  void refuse_for_memory();
  void record(int status, const std::string& cause);

  void read_more();
  [[nodiscard]] std::size_t input_capacity() const noexcept;
  void note_progress() noexcept;
  void note_taken(std::size_t bytes) noexcept;
  void give_time_to_take() noexcept;
  [[nodiscard]] SteadyTime went_on_at() const noexcept {
    return is_writing_ ? taken_at_ : progress_at_;
  }
  [[nodiscard]] bool waits_for_body() const noexcept;
  [[nodiscard]] bool is_stalled(SteadyTime now) const noexcept;
  void end_for_memory();
  void flush();
  [[nodiscard]] std::size_t write_at_once(IoResult& result);
  void count_output(Outgoing& outgoing) noexcept;
  void write_on();
  void end_connection();
  /// `status` is what the log says of a request that is under way.
  void close(int status = kClientGone) noexcept;
  void wait_for(Awaited awaited);
  [[nodiscard]] SteadyTime now() const { return service_.clock().steady(); }

  /// Of a request whose client left before the answer.
  static constexpr int kClientGone = 499;

  const std::shared_ptr<EventLoop> loop_;
  HttpService& service_;
  const std::string peer_;
  std::optional<std::string> certificate_name_;
  /// The entry of this connection, until `start` moves it to the loop: `start` cannot fail.
  EventLoop::Connections unlisted_{this};
  const EventLoop::Connections::iterator position_ = unlisted_.begin();

  ConnectionPlace place_;
  std::size_t place_bytes_ = 0;  ///< of memory, with the smallest buffers
  State state_ = State::handshake;
  Awaited awaited_ = Awaited::nothing;
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool is_behind_ = false;  ///< the client has not taken all since it last did
  bool is_in_handler_ = false;
  bool has_answer_ = false;
  bool has_ended_ = false;   ///< the client sends nothing more
  bool keep_alive_ = true;   ///< says the request
  bool is_http_1_1_ = true;  ///< says the request
  bool is_body_complete_ = true;
  bool needs_lingering_ = false;
  bool expects_continue_ = false;
  bool has_answered_ = false;  ///< a request, whatever the answer
  std::size_t head_bytes_ = 0;
  std::size_t body_bytes_expected_ = 0;  ///< 0: it comes in chunks

  InputBuffer input_;
  RequestParser parser_;
  Outgoing output_;   ///< to be written
  Outgoing sending_;  ///< being written
  std::size_t sent_ = 0;
  SteadyTime awaited_since_{};
  SteadyTime progress_at_{};        ///< when the client last sent a good deal
  std::size_t progress_bytes_ = 0;  ///< that it has sent since then
  SteadyTime taken_at_{};           ///< when the client last took a good deal, or all
  std::size_t taken_bytes_ = 0;     ///< that it has taken since then
  SteadyTime sink_busy_since_{};
  SteadyTime read_deadline_ = SteadyTime::max();
  SteadyTime stream_deadline_ = SteadyTime::max();  ///< of the body of a sink
  SteadyTime write_deadline_ = SteadyTime::max();

  std::string caller_;                      ///< that asked last
  std::shared_ptr<MemoryAccount> account_;  ///< its account
  std::shared_ptr<HttpExchange> exchange_;
  std::optional<Response> early_;  ///< sent once the body, which nobody wants, is in
  std::shared_ptr<BodySink> sink_;
  bool sink_wants_more_ = false;
};

}  // namespace oncebox::server
