#include "oncebox/server/server_options.hpp"
