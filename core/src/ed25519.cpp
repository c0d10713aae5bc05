#include "oncebox/ed25519.hpp"

#include <openssl/evp.h>

#include <cstddef>

#include "oncebox/error.hpp"

namespace oncebox {

namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kSignatureBytes = 64;

struct FreeKey {
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using SignContext = std::unique_ptr<EVP_MD_CTX, FreeKey>;

void require_ed25519(bool condition, const char* what) {
  if (!condition) throw Error(ErrorCode::internal, what);
}

const auto* key_octets(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

SignContext new_context() {
  SignContext context(EVP_MD_CTX_new());
  require_ed25519(context != nullptr, "OpenSSL has no memory for a signature");
  return context;
}

}  // namespace

class Ed25519SecretKey::Impl {
 public:
  explicit Impl(std::string_view bytes) {
    if (bytes.size() != kKeyBytes && bytes.size() != 2 * kKeyBytes) {
      throw Error(ErrorCode::invalid_argument,
                  "a secret key of Ed25519 has 32 bytes, or 64 with its public key");
    }
    key_.reset(
        EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, key_octets(bytes), kKeyBytes));
    require_ed25519(key_ != nullptr, "OpenSSL cannot use this secret key for Ed25519");
    if (bytes.size() > kKeyBytes && bytes.substr(kKeyBytes) != public_key()) {
      throw Error(ErrorCode::invalid_argument,
                  "the public key behind this secret key of Ed25519 belongs to another one");
    }
  }

  [[nodiscard]] std::string sign(std::string_view message) const {
    const SignContext context = new_context();
    std::string signature(kSignatureBytes, '\0');
    std::size_t size = signature.size();
    const bool is_signed =
        EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
        EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                       key_octets(message), message.size()) == 1;
    require_ed25519(is_signed && size == kSignatureBytes, "OpenSSL cannot sign with Ed25519");
    return signature;
  }

  [[nodiscard]] std::string public_key() const {
    std::string bytes(kKeyBytes, '\0');
    std::size_t size = bytes.size();
    require_ed25519(EVP_PKEY_get_raw_public_key(
                        key_.get(), reinterpret_cast<unsigned char*>(bytes.data()), &size) == 1,
                    "OpenSSL does not tell the public key of Ed25519");
    return bytes;
  }

 private:
  Key key_;
};

Ed25519SecretKey::Ed25519SecretKey(std::string_view bytes)
    : impl_(std::make_unique<const Impl>(bytes)) {}
Ed25519SecretKey::~Ed25519SecretKey() = default;
Ed25519SecretKey::Ed25519SecretKey(Ed25519SecretKey&&) noexcept = default;
Ed25519SecretKey& Ed25519SecretKey::operator=(Ed25519SecretKey&&) noexcept = default;

std::string Ed25519SecretKey::sign(std::string_view message) const { return impl_->sign(message); }
std::string Ed25519SecretKey::public_key() const { return impl_->public_key(); }

class Ed25519PublicKey::Impl {
 public:
  explicit Impl(std::string_view bytes) {
    if (bytes.size() != kKeyBytes) {
      throw Error(ErrorCode::invalid_argument, "a public key of Ed25519 has 32 bytes");
    }
    key_.reset(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key_octets(bytes), bytes.size()));
    require_ed25519(key_ != nullptr, "OpenSSL cannot use this public key for Ed25519");
  }

  [[nodiscard]] bool verifies(std::string_view message, std::string_view signature) const {
    if (signature.size() != kSignatureBytes) return false;
    const SignContext context = new_context();
    require_ed25519(EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1,
                    "OpenSSL cannot check signatures of Ed25519");
    return EVP_DigestVerify(context.get(), key_octets(signature), signature.size(),
                            key_octets(message), message.size()) == 1;
  }

 private:
  Key key_;
};

Ed25519PublicKey::Ed25519PublicKey(std::string_view bytes)
    : impl_(std::make_unique<const Impl>(bytes)) {}
Ed25519PublicKey::~Ed25519PublicKey() = default;
Ed25519PublicKey::Ed25519PublicKey(Ed25519PublicKey&&) noexcept = default;
Ed25519PublicKey& Ed25519PublicKey::operator=(Ed25519PublicKey&&) noexcept = default;

bool Ed25519PublicKey::verifies(std::string_view message, std::string_view signature) const {
  return impl_->verifies(message, signature);
}

}  // namespace oncebox
