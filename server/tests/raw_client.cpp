#include "raw_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace oncebox::server {

namespace {

constexpr int kSecondsToWait = 60;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error("client: " + what); }

void check(bool is_fine, const char* what) {
  if (!is_fine) fail(what);
}

int connect_to(std::uint16_t port, const std::string& from = {}) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  check(socket >= 0, "no socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (!from.empty()) {
    inet_pton(AF_INET, from.c_str(), &address.sin_addr);
    check(bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
          "cannot come from there");
  }
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(socket);
    fail(std::string("cannot connect: ") + std::strerror(errno));
  }
  const timeval wait{.tv_sec = kSecondsToWait, .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  return socket;
}

/// Repeats a call of the socket that a signal interrupts, as one that stops the program for a while
/// does.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

RawClient::RawClient(std::uint16_t port) : socket_(connect_to(port)) {}

RawClient::RawClient(std::uint16_t port, const std::string& from)
    : socket_(connect_to(port, from)) {}

RawClient::RawClient(std::uint16_t port, const TlsClientOptions& tls) : socket_(connect_to(port)) {
  context_ = SSL_CTX_new(TLS_client_method());
  SSL_CTX_load_verify_locations(context_, tls.ca.c_str(), nullptr);
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
  if (!tls.certificate.empty()) {
    SSL_CTX_use_certificate_file(context_, tls.certificate.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context_, tls.key.c_str(), SSL_FILETYPE_PEM);
  }
  session_ = SSL_new(context_);
  SSL_set_fd(session_, socket_);
  if (SSL_connect(session_) != 1) {
    SSL_free(session_);
    SSL_CTX_free(context_);
    ::close(socket_);
    fail("no handshake");
  }
}

RawClient::RawClient(RawClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      context_(std::exchange(other.context_, nullptr)),
      session_(std::exchange(other.session_, nullptr)),
      buffer_(std::move(other.buffer_)) {}

RawClient::~RawClient() {
  if (session_ != nullptr) SSL_free(session_);
  if (context_ != nullptr) SSL_CTX_free(context_);
  if (socket_ >= 0) ::close(socket_);
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = session_ != nullptr
                          ? SSL_write(session_, bytes.data(), static_cast<int>(bytes.size()))
                          : uninterrupted([&] {
                              return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
                            });
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::fill() {
  char piece[16384];
  const auto got = session_ != nullptr
                       ? SSL_read(session_, piece, sizeof piece)
                       : uninterrupted([&] { return ::recv(socket_, piece, sizeof piece, 0); });
  if (got < 0 && session_ == nullptr && errno == EAGAIN) {
    fail("nothing came for a long time");
  }
  if (got <= 0) return false;
  buffer_.append(piece, static_cast<std::size_t>(got));
  return true;
}

std::optional<std::string> RawClient::take_line() {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill()) return std::nullopt;
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

std::string RawClient::take(std::size_t bytes) {
  while (buffer_.size() < bytes) check(fill(), "the connection ended within an answer");
  std::string taken = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  return taken;
}

std::string RawClient::peek(std::size_t bytes) {
  while (buffer_.size() < bytes) check(fill(), "the connection ended too early");
  return buffer_.substr(0, bytes);
}

std::string RawClient::peek_until(std::string_view text) {
  while (buffer_.find(text) == std::string::npos) check(fill(), "the connection ended too early");
  return buffer_;
}

std::string RawClient::take_chunks() {
  std::string body;
  for (;;) {
    const auto line = take_line();
    check(line.has_value(), "the connection ended within the chunks");
    const std::size_t size = std::stoul(*line, nullptr, 16);
    body += take(size);
    check(take(2) == "\r\n", "a chunk without its end");
    if (size == 0) return body;
  }
}

std::optional<RawResponse> RawClient::try_receive(bool to_head) {
  RawResponse response;
  auto line = take_line();
  if (!line) return std::nullopt;
  response.head = *line;
  response.status = std::stoi(line->substr(9, 3));
  while ((line = take_line()) && !line->empty()) {
    response.head += "\r\n" + *line;
    const std::size_t colon = line->find(": ");
    check(colon != std::string::npos, "a field without a colon");
    response.fields.add(line->substr(0, colon), line->substr(colon + 2));
  }
  if (to_head || response.status == 204 || response.status / 100 == 1) return response;
  if (response.field("Transfer-Encoding") == "chunked") {
    response.body = take_chunks();
  } else if (const auto length = response.fields.get("Content-Length")) {
    response.body = take(std::stoul(std::string(*length)));
  } else {
    response.body = receive_rest();
  }
  return response;
}

RawResponse RawClient::receive(bool to_head) {
  auto response = try_receive(to_head);
  check(response.has_value(), "the connection ended without an answer");
  return std::move(*response);
}

std::string RawClient::receive_rest() {
  while (fill()) {
  }
  return std::exchange(buffer_, {});
}

bool RawClient::has_news(std::chrono::milliseconds within) const {
  pollfd waited{.fd = socket_, .events = POLLIN, .revents = 0};
  return poll(&waited, 1, static_cast<int>(within.count())) > 0;
}

void RawClient::half_close() { shutdown(socket_, SHUT_WR); }

void RawClient::reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(std::exchange(socket_, -1));
}

void RawClient::set_receive_buffer(int bytes) {
  setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

std::string RawClient::server_name() const {
  char name[256] = {};
  X509* certificate = SSL_get0_peer_certificate(session_);
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
  return name;
}

namespace {

EVP_PKEY* make_key() { return EVP_EC_gen("P-256"); }

X509* make_certificate(EVP_PKEY* key, const std::string& common_name, long serial) {
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 24 * 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  return certificate;
}

void add_extension(X509* certificate, int kind, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

template <class Write>
void write_file(const std::filesystem::path& path, Write write) {
  FILE* file = std::fopen(path.c_str(), "w");
  check(file != nullptr, "cannot write a certificate");
  write(file);
  std::fclose(file);
}

void write_certificate(const std::filesystem::path& path, X509* certificate) {
  write_file(path, [certificate](FILE* file) { PEM_write_X509(file, certificate); });
}

}  // namespace

TestAuthority::TestAuthority(std::filesystem::path folder)
    : folder_(std::move(folder)), key_(make_key()) {
  certificate_ = make_certificate(key_, "Test authority", serial_++);
  X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
  add_extension(certificate_, NID_basic_constraints, "critical,CA:TRUE");
  X509_sign(certificate_, key_, EVP_sha256());
  write_certificate(ca(), certificate_);
}

TestAuthority::~TestAuthority() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

TestAuthority::Files TestAuthority::sign(const std::string& file, const std::string& common_name) {
  Files files{.certificate = folder_ / (file + ".crt"), .key = folder_ / (file + ".key")};
  EVP_PKEY* key = make_key();
  X509* certificate = make_certificate(key, common_name, serial_++);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate_));
  add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE");
  X509_sign(certificate, key_, EVP_sha256());
  write_certificate(files.certificate, certificate);
  write_file(files.key, [key](FILE* out) {
    PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  X509_free(certificate);
  EVP_PKEY_free(key);
  return files;
}

}  // namespace oncebox::server
