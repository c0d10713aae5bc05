// Tenants that are listed in a file: whoever changes it need not tell the program.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <semaphore>

#include "example_folder.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/store_file.hpp"

using namespace oncebox;

/// Lets the program wait for stores that come and go.
class Changes final : public StoreSetListener {
 public:
  void on_opened(const MemberStorePtr& member) noexcept override { tell("opened", *member); }
  void on_removed(const MemberStorePtr& member) noexcept override { tell("let go", *member); }
  void wait() { told_.acquire(); }

 private:
  void tell(const char* what, const MemberStore& member) {
    std::cout << what << ": " << member.name() << "\n";
    told_.release();
  }
  std::counting_semaphore<> told_{0};
};

int main() {
  const ExampleFolder folder;
  const std::filesystem::path path = folder / "stores.toml";
  std::ofstream(path) << R"(
[[stores]]
name = "acme"
url = "memory:"
)";

  const StoreFile file(path);
  StoreSet stores([&] { return file.read(); },
                  [](const StoreLocation& location) { return open_store(location.url); });
  const StoreFileWatch watch(file, stores);

  const auto changes = std::make_shared<Changes>();
  stores.listen(changes);
  changes->wait();

  std::ofstream(folder / "new") << R"(
[[stores]]
name = "zenith"
url = "memory:"
)";
  std::filesystem::rename(folder / "new", path);  // nobody ever sees half a file
  changes->wait();
  changes->wait();
}
