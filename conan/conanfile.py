"""Conan 2 recipe of soma: headers only, from this checkout.

    conan create conan -s compiler.cppstd=20 --build=missing

With the libraries of Debian instead of ConanCenter's: -pr conan/profiles/debian12 (or debian13).
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMakeDeps, CMakeToolchain
from conan.tools.files import copy, load


class SomaConan(ConanFile):
    name = "soma"
    description = "Header-only C++20 training kernels for CPUs, with exact small float formats"
    license = "Apache-2.0"
    topics = ("header-only", "machine-learning", "simd", "floating-point", "training")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    # The parts with libraries behind them, which come along: <soma/xtensor.hpp>, as everywhere unless it is not wanted,
    # <soma/io.hpp>, <soma/text.hpp>, <soma/tensorboard.hpp>; <soma/models.hpp> needs io and text.
    options = {
        "with_xtensor": [True, False],
        "with_io": [True, False],
        "with_text": [True, False],
        "with_tensorboard": [True, False],
    }
    default_options = {"with_xtensor": True, "with_io": False, "with_text": False, "with_tensorboard": False}
    no_copy_source = True

    def set_version(self):
        # The header is the only place that says the version.
        header = load(self, os.path.join(self.recipe_folder, "..", "include/soma/base/version.hpp"))
        parts = [
            re.search(rf"#define SOMA_VERSION_{part} +(\d+)", header).group(1)
            for part in ("MAJOR", "MINOR", "PATCH")
        ]
        self.version = ".".join(parts)

    def layout(self):
        # The recipe is in conan/, what it packages is beside that folder.
        self.folders.root = ".."
        self.folders.source = "."
        self.folders.build = "build/conan"

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..")
        for pattern in ("include/*.hpp", "include/*.h", "include/*.cpp", "LICENSE", "CMakeLists.txt"):
            copy(self, pattern, root, self.export_sources_folder)

    def requirements(self):
        # Ranges, not versions, so that [platform_requires] of a profile can stand in for them.
        self.requires("highway/[>=1.0.3 <2]", transitive_headers=True, transitive_libs=True)
        self.requires("ms-gsl/[>=4.0.0 <6]", transitive_headers=True)
        if self.options.with_xtensor:
            self.requires("xtensor/[>=0.24.3 <0.28]", transitive_headers=True)
        if self.options.with_io or self.options.with_text:
            self.requires("nlohmann_json/[>=3.10 <4]", transitive_headers=True)
        if self.options.with_io:
            self.requires("xxhash/[>=0.8.0 <1]", transitive_headers=True)
        if self.options.with_text:
            self.requires("utf8proc/[>=2.6 <3]", transitive_headers=True, transitive_libs=True)
            self.requires("zlib/[>=1.2.11 <2]", transitive_headers=True, transitive_libs=True)
        if self.options.with_tensorboard:
            self.requires("protozero/[>=1.7 <2]", transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.clear()

    def generate(self):
        # ConanCenter calls the package "highway"; its own CMake files, and ours, say hwy::hwy.
        deps = CMakeDeps(self)
        deps.set_property("highway", "cmake_file_name", "hwy")
        deps.set_property("highway::hwy", "cmake_target_name", "hwy::hwy")
        deps.generate()
        CMakeToolchain(self).generate()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        for pattern in ("*.hpp", "*.h", "*.cpp"):
            copy(self, pattern, os.path.join(self.source_folder, "include"),
                 os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "soma")
        self.cpp_info.set_property("cmake_target_name", "soma::soma")
        self.cpp_info.set_property("pkg_config_name", "soma")
        if self.settings.get_safe("os") in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
