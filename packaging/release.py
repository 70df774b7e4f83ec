#!/usr/bin/env python3
"""Makes what package indices want of a release, from the recipe and the port of this checkout.

    python3 packaging/release.py --url URL --archive FILE --output FOLDER

URL is where users download the release's source archive (https://... or file://...), FILE that archive here, of which the
checksums are computed. FOLDER, which must not exist yet, gets

    conan/recipes/soma/config.yml, all/{conanfile.py,conandata.yml,test_package/}   for a Conan index
    vcpkg/ports/soma/{vcpkg.json,portfile.cmake,usage}                              for a vcpkg registry

A Conan index takes exact versions of other packages, named with --require (default: those that this release was made for).
"""

import argparse
import hashlib
import pathlib
import re
import shutil
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
REQUIRED = {
    "highway": "1.3.0",
    "ms-gsl": "4.2.0",
    "xtensor": "0.24.7",
    "nlohmann_json": "3.11.3",
    "xxhash": "0.8.3",
    "utf8proc": "2.9.0",
    "zlib": "1.3.1",
    "protozero": "1.7.1",
    "libpng": "1.6.50",
    "libjpeg-turbo": "3.1.0",
    "openmpi": "4.1.6",
}

FROM_ARCHIVE = '''    # Where the sources come from: the release's archive.
    url = "https://github.com/conan-io/conan-center-index"

    def layout(self):
        cmake_layout(self, src_folder="src")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

'''


class Problem(Exception):
    """A reason to stop, which the user can act on."""


def replaced(text, pattern, new, what):
    """text with the one place that `pattern` matches replaced by `new`."""
    result, count = re.subn(pattern, lambda match: new, text, flags=re.DOTALL)
    if count != 1:
        raise Problem(f"{what}: its place was found {count} times, wanted once")
    return result


def version_of(text):
    return ".".join(re.search(rf"#define SOMA_VERSION_{part} +(\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


def version_in(archive):
    """The version that the archive's own header says: an archive of something else is refused here."""
    name = "include/soma/base/version.hpp"
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                found = [entry for entry in opened.namelist() if entry.endswith("/" + name)]
                return version_of(opened.read(found[0]).decode())
        with tarfile.open(archive) as opened:
            found = [entry for entry in opened.getnames() if entry.endswith("/" + name)]
            return version_of(opened.extractfile(found[0]).read().decode())
    except (OSError, tarfile.TarError, zipfile.BadZipFile, IndexError, AttributeError) as error:
        raise Problem(f"{archive}: no archive of soma, with {name} below one folder ({error})") from error


def conan_recipe(version, url, sha256, required):
    text = (ROOT / "conan/conanfile.py").read_text()
    text = replaced(text, r'^""".*?"""\n', '"""Conan 2 recipe of soma."""\n', "the recipe's first lines")
    text = replaced(text, r"import os\nimport re\n", "import os\n", "the recipe's imports")
    text = text.replace("import copy, load, rmdir", "import copy, get, rmdir")
    text = replaced(text, r"    # Where the sources come from: this checkout\.\n.*?(?=    # The rest holds)", FROM_ARCHIVE,
                    "where the sources come from")
    text = replaced(text, r"# Ranges, so that [^\n]*\n# brings in is", "# The header of the library that each option brings in is",
                    "the words about ranges")
    text, count = re.subn(r'"([\w-]+)": "\[[^\]]*\]"', lambda match: f'"{match[1]}": "{required[match[1]]}"', text)
    if count == 0:
        raise Problem("the recipe's table of requirements was not found")
    data = f'sources:\n  "{version}":\n    url: "{url}"\n    sha256: "{sha256}"\n'
    return text, data, f'versions:\n  "{version}":\n    folder: all\n'


def vcpkg_port(version, url, sha512, archive):
    folder = ROOT / "packaging/vcpkg/ports/soma"
    manifest = replaced((folder / "vcpkg.json").read_text(), r'"version": "[^"]*"', f'"version": "{version}"', "the port's version")
    suffix = ".zip" if archive.suffix == ".zip" else ".tar" + archive.suffix
    source = f'''vcpkg_download_distfile(ARCHIVE
    URLS "{url}"
    FILENAME "soma-{version}{suffix}"
    SHA512 {sha512}
)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${{ARCHIVE}}")
'''
    portfile = replaced((folder / "portfile.cmake").read_text(), r"# The sources are the checkout[^\n]*\n[^\n]*\n", source,
                        "the port's sources")
    return manifest, portfile, (folder / "usage").read_text()


def main():
    parser = argparse.ArgumentParser(description="makes a Conan recipe and a vcpkg port for a release")
    parser.add_argument("--url", required=True, help="where the archive is downloaded from")
    parser.add_argument("--archive", required=True, type=pathlib.Path, help="the archive itself")
    parser.add_argument("--output", required=True, type=pathlib.Path, help="a folder, which is made")
    parser.add_argument("--require", action="append", default=[], metavar="PACKAGE/VERSION",
                        help="the version of a package that the Conan recipe asks for")
    arguments = parser.parse_args()
    try:
        if not re.match(r"(https?|file)://[^\s\"\\]+$", arguments.url):
            raise Problem(f"--url {arguments.url}: wanted https://... or file://...")
        if arguments.output.exists():
            raise Problem(f"--output {arguments.output}: is there already")
        required = dict(REQUIRED)
        for given in arguments.require:
            name, slash, wanted = given.partition("/")
            if not slash or name not in required:
                raise Problem(f"--require {given}: wanted PACKAGE/VERSION, with one of {', '.join(sorted(required))}")
            required[name] = wanted
        version = version_in(arguments.archive)
        content = arguments.archive.read_bytes()
        recipe, data, config = conan_recipe(version, arguments.url, hashlib.sha256(content).hexdigest(), required)
        manifest, portfile, usage = vcpkg_port(version, arguments.url, hashlib.sha512(content).hexdigest(), arguments.archive)
        conan = arguments.output / "conan/recipes/soma"
        port = arguments.output / "vcpkg/ports/soma"
        (conan / "all").mkdir(parents=True)
        port.mkdir(parents=True)
        (conan / "config.yml").write_text(config)
        (conan / "all/conandata.yml").write_text(data)
        (conan / "all/conanfile.py").write_text(recipe)
        shutil.copytree(ROOT / "conan/test_package", conan / "all/test_package", ignore=shutil.ignore_patterns("build", "__pycache__"))
        (port / "vcpkg.json").write_text(manifest)
        (port / "portfile.cmake").write_text(portfile)
        (port / "usage").write_text(usage)
    except (Problem, OSError) as problem:
        sys.exit(f"release.py: {problem}")
    print(f"soma {version}: {conan}, {port}")


if __name__ == "__main__":
    main()
