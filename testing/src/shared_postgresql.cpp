#include "oncebox/testing/shared_postgresql.hpp"

#include <cstdlib>
#include <memory>

#include "oncebox/error.hpp"
#include "oncebox/testing/postgresql_server.hpp"
#include "server_folder.hpp"
#include "shared_postgresql_options.hpp"

namespace oncebox::testing {

namespace {

// Removes its server, if it has one, when the program ends.
class SharedServer {
 public:
  SharedServer() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
    const char* file = std::getenv("ONCEBOX_TEST_POSTGRESQL");
    if (file == nullptr) {
      server_ = std::make_unique<PostgresqlServer>(shared_postgresql_options());
      url_ = server_->url();
      return;
    }
    url_ = read_text(file);
    if (url_.empty()) {
      throw Error(ErrorCode::not_found,
                  std::string("the test server does not run: there is no URL in ") + file +
                      "; run the test by ctest, or unset ONCEBOX_TEST_POSTGRESQL");
    }
  }

  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  std::unique_ptr<PostgresqlServer> server_;
  std::string url_;
};

}  // namespace

const std::string& shared_postgresql_url() {
  static const SharedServer server;
  return server.url();
}

}  // namespace oncebox::testing
