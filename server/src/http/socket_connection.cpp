#include "http/socket_connection.hpp"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <utility>

#include "http/tls_context.hpp"
#include "http/tls_session.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using SystemError = boost::system::error_code;
using Socket = asio::ip::tcp::socket;

namespace {

Socket adopt(EventLoop& loop, AcceptedSocket& accepted) {
  Socket socket(loop.context());
  socket.assign(accepted.is_ipv6() ? asio::ip::tcp::v6() : asio::ip::tcp::v4(),
                accepted.descriptor());
  accepted.taken();
  socket.non_blocking(true);  // it is already: tells Asio, whose `write_some` would wait otherwise
  SystemError ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  return socket;
}

IoResult result_of(const SystemError& error) {
  if (!error) return IoResult::ok;
  return error == asio::error::eof ? IoResult::end_of_file : IoResult::failed;
}

/// A connection over plain TCP.
class PlainConnection final : public Connection {
 public:
  PlainConnection(std::shared_ptr<EventLoop> loop, HttpService& service, AcceptedSocket& accepted)
      : Connection(loop, service, accepted.peer()), socket_(adopt(*loop, accepted)) {}

 private:
  void start_handshake() override { on_handshake(IoResult::ok, std::nullopt); }

  void start_read(char* data, std::size_t size) override {
    socket_.async_read_some(
        asio::buffer(data, size),
        [this, self = shared_from_this()](const SystemError& error, std::size_t bytes) {
          on_read(result_of(error), bytes);
        });
  }

  void start_write(const char* data, std::size_t size) override {
    socket_.async_write_some(
        asio::buffer(data, size),
        [this, self = shared_from_this()](const SystemError& error, std::size_t bytes) {
          on_written(result_of(error), bytes);
        });
  }

  std::size_t write_now(const char* data, std::size_t size, IoResult& result) override {
    SystemError error;
    const std::size_t written = socket_.write_some(asio::buffer(data, size), error);
    if (error && error != asio::error::would_block) result = IoResult::failed;
    return written;
  }

  bool start_shutdown() override {
    SystemError ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
    return false;
  }

  void close_socket() noexcept override {
    SystemError ignored;
    socket_.close(ignored);
  }

  Socket socket_;
};

/// A connection over TLS. Asio waits for the socket, and no more: its own streams for TLS keep four
/// buffers of 17 KB for each connection, however idle.
class TlsConnection final : public Connection {
 public:
  TlsConnection(std::shared_ptr<EventLoop> loop, HttpService& service, AcceptedSocket& accepted,
                std::shared_ptr<ssl::context> context)
      : Connection(loop, service, accepted.peer()),
        context_(std::move(context)),
        socket_(adopt(*loop, accepted)),
        session_(context_->native_handle(), socket_.native_handle()) {}

 private:
  using Step = TlsSession::Step;

  static IoResult result_of_step(Step step) {
    if (step == Step::done) return IoResult::ok;
    return step == Step::end_of_file ? IoResult::end_of_file : IoResult::failed;
  }

  /// Waits, then takes the step, and waits again as long as the step asks for it. `end(IoResult)`
  /// hears how it ended.
  template <class Take, class End>
  void take_after(Step wait, Take take, End end) {
    const auto what = wait == Step::wait_to_write ? Socket::wait_write : Socket::wait_read;
    socket_.async_wait(what,
                       [this, self = shared_from_this(), take, end](const SystemError& error) {
                         if (error) return end(IoResult::failed);
                         take_now(take, end);
                       });
  }

  /// Takes no step once the socket is closed: another connection may have its number by then. A
  /// wait that had ended before the socket was closed still calls back without an error.
  template <class Take, class End>
  void take_now(Take take, End end) {
    if (!socket_.is_open()) return end(IoResult::failed);
    const Step step = take();
    if (step == Step::wait_to_read || step == Step::wait_to_write) {
      return take_after(step, std::move(take), std::move(end));
    }
    end(result_of_step(step));
  }

  void start_handshake() override {
    take_after(
        Step::wait_to_read, [this] { return session_.shake_hands(); },
        [this](IoResult result) {
          std::optional<std::string> name;
          if (result == IoResult::ok) name = session_.certificate_name();
          on_handshake(result, std::move(name));
        });
  }

  void start_read(char* data, std::size_t size) override {
    const auto take = [this, data, size] { return session_.read(data, size, bytes_read_); };
    const auto end = [this](IoResult result) { on_read(result, bytes_read_); };
    if (!session_.has_pending()) return take_after(Step::wait_to_read, take, end);
    asio::post(socket_.get_executor(),
               [this, self = shared_from_this(), take, end] { take_now(take, end); });
  }

  void start_write(const char* data, std::size_t size) override {
    take_after(
        Step::wait_to_write,
        [this, data, size] { return session_.write(data, size, bytes_written_); },
        [this](IoResult result) { on_written(result, bytes_written_); });
  }

  std::size_t write_now(const char* data, std::size_t size, IoResult& result) override {
    std::size_t written = 0;
    while (written < size) {
      std::size_t bytes = 0;
      const Step step = session_.write(data + written, size - written, bytes);
      if (step == Step::wait_to_read || step == Step::wait_to_write) break;
      result = result_of_step(step);
      if (step != Step::done) break;
      written += bytes;
    }
    return written;
  }

  bool start_shutdown() override {
    take_after(
        Step::wait_to_write, [this] { return session_.say_goodbye(); },
        [this](IoResult) { on_shutdown(); });
    return true;
  }

  void close_socket() noexcept override {
    SystemError ignored;
    socket_.close(ignored);
  }

  const std::shared_ptr<ssl::context> context_;
  Socket socket_;
  TlsSession session_;
  std::size_t bytes_read_ = 0;
  std::size_t bytes_written_ = 0;
};

[[noreturn]] void refuse_file(std::string_view option, const std::filesystem::path& path,
                              const SystemError& error) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: {} cannot be used: {}", option, path.string(), error.message()));
}

}  // namespace

AcceptedSocket::~AcceptedSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::shared_ptr<ssl::context> load_tls_context(const TlsOptions& options) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                       ssl::context::no_tlsv1_1 | ssl::context::single_dh_use);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_read_ahead(context->native_handle(), 1);
  SystemError error;
  context->use_certificate_chain_file(options.certificate.string(), error);
  if (error) refuse_file("tls.certificate", options.certificate, error);
  context->use_private_key_file(options.key.string(), ssl::context::pem, error);
  if (error) refuse_file("tls.key", options.key, error);
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    throw Error(ErrorCode::invalid_argument, "tls.key: is not the key of tls.certificate");
  }
  if (!options.client_ca.empty()) {
    context->load_verify_file(options.client_ca.string(), error);
    if (error) refuse_file("tls.client_ca", options.client_ca, error);
    SSL_CTX_set_client_CA_list(context->native_handle(),
                               SSL_load_client_CA_file(options.client_ca.c_str()));
    ssl::verify_mode mode = ssl::verify_peer;
    if (options.require_client_certificate) mode |= ssl::verify_fail_if_no_peer_cert;
    context->set_verify_mode(mode);
    // Sessions are told apart by it; without one a client certificate breaks their resumption.
    constexpr unsigned char kSessionContext[] = "oncebox";
    SSL_CTX_set_session_id_context(context->native_handle(), kSessionContext,
                                   sizeof kSessionContext - 1);
  }
  return context;
}

std::shared_ptr<Connection> make_socket_connection(std::shared_ptr<EventLoop> loop,
                                                   HttpService& service, AcceptedSocket& socket,
                                                   std::shared_ptr<ssl::context> tls) {
  if (!tls) return std::make_shared<PlainConnection>(std::move(loop), service, socket);
  return std::make_shared<TlsConnection>(std::move(loop), service, socket, std::move(tls));
}

}  // namespace oncebox::server
