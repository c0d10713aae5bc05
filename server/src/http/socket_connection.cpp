#include "http/socket_connection.hpp"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <utility>

#include "http/tls_context.hpp"
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
  SystemError ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  return socket;
}

IoResult result_of(const SystemError& error) {
  if (!error) return IoResult::ok;
  if (error == asio::error::eof || error == ssl::error::stream_truncated) {
    return IoResult::end_of_file;
  }
  return IoResult::failed;
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

/// The common name of the certificate that the client showed, if it did.
std::optional<std::string> certificate_name_of(SSL* session) {
  X509* certificate = SSL_get0_peer_certificate(session);
  if (certificate == nullptr || SSL_get_verify_result(session) != X509_V_OK) return std::nullopt;
  const X509_NAME* subject = X509_get_subject_name(certificate);
  const int position = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (position < 0) return std::string();
  const ASN1_STRING* value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, position));
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, value);
  if (size < 0) return std::string();
  std::string name(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  OPENSSL_free(text);
  return name;
}

/// A connection over TLS.
class TlsConnection final : public Connection {
 public:
  TlsConnection(std::shared_ptr<EventLoop> loop, HttpService& service, AcceptedSocket& accepted,
                std::shared_ptr<ssl::context> context)
      : Connection(loop, service, accepted.peer()),
        context_(std::move(context)),
        stream_(adopt(*loop, accepted), *context_) {}

 private:
  void start_handshake() override {
    stream_.async_handshake(ssl::stream_base::server,
                            [this, self = shared_from_this()](const SystemError& error) {
                              std::optional<std::string> name;
                              if (!error) name = certificate_name_of(stream_.native_handle());
                              on_handshake(result_of(error), std::move(name));
                            });
  }

  void start_read(char* data, std::size_t size) override {
    stream_.async_read_some(
        asio::buffer(data, size),
        [this, self = shared_from_this()](const SystemError& error, std::size_t bytes) {
          on_read(result_of(error), bytes);
        });
  }

  void start_write(const char* data, std::size_t size) override {
    stream_.async_write_some(
        asio::buffer(data, size),
        [this, self = shared_from_this()](const SystemError& error, std::size_t bytes) {
          on_written(result_of(error), bytes);
        });
  }

  std::size_t write_now(const char*, std::size_t, IoResult&) override { return 0; }

  bool start_shutdown() override {
    stream_.async_shutdown(
        [this, self = shared_from_this()](const SystemError&) { on_shutdown(); });
    return true;
  }

  void close_socket() noexcept override {
    SystemError ignored;
    stream_.lowest_layer().close(ignored);
  }

  const std::shared_ptr<ssl::context> context_;
  ssl::stream<Socket> stream_;
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
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
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
