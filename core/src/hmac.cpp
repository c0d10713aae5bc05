#include "oncebox/hmac.hpp"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "oncebox/error.hpp"

namespace oncebox {

namespace {

struct FreeMac {
  void operator()(EVP_MAC* mac) const noexcept { EVP_MAC_free(mac); }
  void operator()(EVP_MAC_CTX* context) const noexcept { EVP_MAC_CTX_free(context); }
};
using Mac = std::unique_ptr<EVP_MAC, FreeMac>;
using MacContext = std::unique_ptr<EVP_MAC_CTX, FreeMac>;

const char* digest_name(HmacAlgorithm algorithm) {
  switch (algorithm) {
    case HmacAlgorithm::sha1:
      return "SHA1";
    case HmacAlgorithm::sha256:
      return "SHA256";
    case HmacAlgorithm::sha512:
      return "SHA512";
  }
  return "SHA256";
}

void require_openssl(bool condition, const char* what) {
  if (!condition) throw Error(ErrorCode::internal, what);
}

const auto* octets_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

/// The context holds the key; each use takes a copy.
class HmacKey::Impl {
 public:
  Impl(std::string_view secret, HmacAlgorithm algorithm) {
    const Mac mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
    require_openssl(mac != nullptr, "OpenSSL has no HMAC");
    keyed_.reset(EVP_MAC_CTX_new(mac.get()));
    std::string digest = digest_name(algorithm);
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest.data(), 0),
        OSSL_PARAM_construct_end()};
    require_openssl(keyed_ != nullptr && EVP_MAC_init(keyed_.get(), octets_of(secret),
                                                      secret.size(), parameters) == 1,
                    "OpenSSL cannot use this secret for HMAC");
  }

  [[nodiscard]] std::string sign(std::initializer_list<std::string_view> pieces) const {
    const MacContext context(EVP_MAC_CTX_dup(keyed_.get()));
    require_openssl(context != nullptr, "OpenSSL cannot copy a key");
    for (const std::string_view piece : pieces) {
      require_openssl(EVP_MAC_update(context.get(), octets_of(piece), piece.size()) == 1,
                      "OpenSSL cannot compute an HMAC");
    }
    std::string signature(EVP_MAX_MD_SIZE, '\0');
    std::size_t length = 0;
    require_openssl(EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(signature.data()),
                                  &length, signature.size()) == 1,
                    "OpenSSL cannot compute an HMAC");
    signature.resize(length);
    return signature;
  }

 private:
  MacContext keyed_;
};

HmacKey::HmacKey(std::string_view secret, HmacAlgorithm algorithm)
    : impl_(std::make_unique<const Impl>(secret, algorithm)) {}
HmacKey::~HmacKey() = default;
HmacKey::HmacKey(HmacKey&&) noexcept = default;
HmacKey& HmacKey::operator=(HmacKey&&) noexcept = default;

std::string HmacKey::sign(std::initializer_list<std::string_view> pieces) const {
  return impl_->sign(pieces);
}

}  // namespace oncebox
