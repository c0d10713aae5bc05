#include "http/tls_session.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <new>

namespace oncebox::server {

namespace {

// How OpenSSL moves the bytes of a session to and from its socket. Its own way raises a signal when
// the other side is gone.

int descriptor_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

bool would_block() { return errno == EAGAIN || errno == EINTR; }

int write_socket(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const auto written = send(descriptor_of(bio), data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (written < 0 && would_block()) BIO_set_retry_write(bio);
  return static_cast<int>(written);
}

int read_socket(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const auto read = recv(descriptor_of(bio), data, static_cast<std::size_t>(size), 0);
  if (read < 0 && would_block()) BIO_set_retry_read(bio);
  if (read == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(read);
}

long control_socket(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* make_socket_method() {
  BIO_METHOD* const method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
  if (method == nullptr) throw std::bad_alloc();
  BIO_meth_set_write(method, write_socket);
  BIO_meth_set_read(method, read_socket);
  BIO_meth_set_ctrl(method, control_socket);
  return method;
}

}  // namespace

void TlsSession::End::operator()(SSL* session) const noexcept { SSL_free(session); }

TlsSession::TlsSession(SSL_CTX* context, int descriptor) : session_(SSL_new(context)) {
  static BIO_METHOD* const method = make_socket_method();
  BIO* const bio = session_ ? BIO_new(method) : nullptr;
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));
  BIO_set_init(bio, 1);
  SSL_set_bio(session_.get(), bio, bio);
  // The buffers go while they are empty; what is written may be elsewhere when it is tried again.
  SSL_set_mode(session_.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                   SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_set_accept_state(session_.get());
}

TlsSession::Step TlsSession::step_of(int result) const noexcept {
  if (result > 0) return Step::done;
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Step::wait_to_read;
    case SSL_ERROR_WANT_WRITE:
      return Step::wait_to_write;
    case SSL_ERROR_ZERO_RETURN:
      return Step::end_of_file;
    case SSL_ERROR_SSL:
      // The other side closed the connection without a word.
      return ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING
                 ? Step::end_of_file
                 : Step::failed;
    default:
      return Step::failed;
  }
}

TlsSession::Step TlsSession::shake_hands() noexcept {
  ERR_clear_error();
  return step_of(SSL_accept(session_.get()));
}

TlsSession::Step TlsSession::read(char* data, std::size_t size, std::size_t& bytes) noexcept {
  ERR_clear_error();
  return step_of(SSL_read_ex(session_.get(), data, size, &bytes));
}

TlsSession::Step TlsSession::write(const char* data, std::size_t size,
                                   std::size_t& bytes) noexcept {
  ERR_clear_error();
  return step_of(SSL_write_ex(session_.get(), data, size, &bytes));
}

TlsSession::Step TlsSession::say_goodbye() noexcept {
  ERR_clear_error();
  int result = SSL_shutdown(session_.get());
  // 0: it is said, and the other side has not said it yet.
  if (result == 0) result = SSL_shutdown(session_.get());
  return step_of(result);
}

bool TlsSession::has_pending() const noexcept { return SSL_has_pending(session_.get()) == 1; }

std::optional<std::string> TlsSession::certificate_name() const {
  X509* certificate = SSL_get0_peer_certificate(session_.get());
  if (certificate == nullptr || SSL_get_verify_result(session_.get()) != X509_V_OK) {
    return std::nullopt;
  }
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

}  // namespace oncebox::server
