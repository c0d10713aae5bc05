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

  /// Waits for requests, or, when it is refused, says so and goes. Counts as admitted until it is
  /// closed.
  void start(HttpService::Admission admission) noexcept;

  void on_answer(HttpExchange& exchange) noexcept;
  void on_stream_pieces(HttpExchange& exchange) noexcept;
  void on_body_wanted(HttpExchange& exchange) noexcept;
  void on_tick() noexcept;

  /// Goes as soon as no request is under way.
  void drain() noexcept;
  /// Goes at once.
  void cut() noexcept;
  [[nodiscard]] bool has_request() const noexcept;

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
  Flow read_head();
  Flow read_body();
  [[nodiscard]] bool hold_body(std::size_t bytes);
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
  void record(int status, const std::string& cause);

  void read_more();
  void flush();
  void write_on();
  void end_connection();
  void close() noexcept;
  void wait_for(Awaited awaited);
  [[nodiscard]] SteadyTime now() const { return service_.clock().steady(); }

  const std::shared_ptr<EventLoop> loop_;
  HttpService& service_;
  const std::string peer_;
  std::optional<std::string> certificate_name_;
  EventLoop::Connections::iterator position_;

  HttpService::Admission admission_ = HttpService::Admission::dropped;
  State state_ = State::handshake;
  Awaited awaited_ = Awaited::nothing;
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool is_in_handler_ = false;
  bool has_answer_ = false;
  bool has_ended_ = false;   ///< the client sends nothing more
  bool keep_alive_ = true;   ///< says the request
  bool is_http_1_1_ = true;  ///< says the request
  bool is_body_complete_ = true;
  bool needs_lingering_ = false;
  bool expects_continue_ = false;
  std::size_t head_bytes_ = 0;
  std::size_t held_body_ = 0;            ///< counted with those of the other connections
  std::size_t body_bytes_expected_ = 0;  ///< 0: it comes in chunks

  InputBuffer input_;
  RequestParser parser_;
  std::string output_;   ///< to be written
  std::string sending_;  ///< being written
  std::size_t sent_ = 0;
  std::size_t write_step_ = 0;  ///< once this is sent the client gets more time
  SteadyTime read_deadline_ = SteadyTime::max();
  SteadyTime stream_deadline_ = SteadyTime::max();  ///< of the body of a sink
  SteadyTime write_deadline_ = SteadyTime::max();

  std::shared_ptr<HttpExchange> exchange_;
  std::optional<Response> early_;  ///< sent once the body, which nobody wants, is in
  std::shared_ptr<BodySink> sink_;
  bool sink_wants_more_ = false;
};

}  // namespace oncebox::server
